"""No memory is kept from step to step of a run."""

import ctypes
import gc
import io
import itertools
import multiprocessing
import re
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import pytorch_lightning as pl
from rich.console import Console

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]
STEPS = 4000
LIMIT = 0.25  # KiB a step; a tensor of one number, kept at each step, takes more than half a KiB


class Resident(pl.Callback):
    """Reads the memory of this process at ten steps, as (step, KiB)."""

    def __init__(self):
        self.readings: list[tuple[int, int]] = []

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step % (STEPS // 10) == 0:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # freed memory that the process keeps would look like a leak
            status = Path("/proc/self/status").read_text()
            self.readings.append((trainer.global_step, int(re.findall(r"VmRSS:\s*(\d+)", status)[0])))


class Hoarder(pl.Callback):
    """The smallest leak there is: one number of each step, kept as a tensor."""

    def __init__(self):
        self.kept = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self.kept.append(outputs["loss"])


def kib_a_step(place: str, hoard: bool) -> float:
    """The median slope between any two readings; memory that is allocated once does not change it."""
    from normexp.config.run_spec import specs
    from normexp.training.build import build
    from normexp.training.train import PreparedRun

    words = f"recipe=plain model=mlp model.depth=2 model.width=32 norm=batchnorm data=digits outputs={place}"
    (spec,) = specs([*words.split(), f"max_steps={STEPS}", f"val_every_n_steps={STEPS // 20}"])
    parts, watch = build(spec), Resident()
    parts.monitors.extend([watch, *([Hoarder()] if hoard else [])])
    spec.folder.mkdir(parents=True)
    PreparedRun(parts, spec.folder, Console(file=io.StringIO())).fit()
    pairs = itertools.combinations(watch.readings, 2)
    return statistics.median((later - kib) / (end - step) for (step, kib), (end, later) in pairs)


@pytest.mark.parametrize("hoard", [False, True])
def test_memory_grows_only_where_something_is_kept(tmp_path, hoard):
    # in a process of its own: in one that has run other tests, new tensors find room in pages that are half empty
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        slope = pool.submit(kib_a_step, str(tmp_path), hoard).result()
    assert (slope > LIMIT) == hoard, slope
