"""What calls of a run take, timed before it trains."""

import time
import warnings
from collections.abc import Callable
from functools import partial

import torch
from pytorch_lightning import Trainer

from normexp.monitors.base import Monitor, a_twentieth
from normexp.monitors.guard import passes_as_in
from normexp.training.build import Parts

TIMED = 0.05  # seconds that are timed at least, after a call that warms up
LONG = 1.0  # seconds of a first call that need no other


def timed(work: Callable[[], object]) -> float:
    """Seconds of a call on one thread; of the processor, so however busy the machine is."""

    def once() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = [first] if (first := once()) > LONG else []
    while sum(times) < TIMED:
        times.append(once())
    torch.set_num_threads(threads)
    return sorted(times)[len(times) // 4]  # a low quantile, as other processes only slow it down


def cost_of_monitors(parts: Parts, trainer: Trainer) -> tuple[float, int]:
    """(processor seconds of all measurements, how many there are of the monitor that measures most often). Each monitor
    measures the initial network, which stays as it is."""
    total, most, steps = 0.0, 0, parts.module.total_steps
    for monitor in parts.monitors:
        if isinstance(monitor, Monitor):
            every = monitor.asked or a_twentieth(trainer, parts.module)
            times = -(-steps // every) + 1  # with the last weights
            with (
                warnings.catch_warnings(action="ignore"),
                monitor.attempt(),
                passes_as_in(trainer),
            ):  # said later
                total += times * timed(partial(monitor.measure, parts.module, parts.data))
                most = max(most, times)
    return total, most
