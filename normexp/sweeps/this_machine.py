"""Jobs in processes of this machine. Each slot has a process that trains one run after the other.

A server process imports torch and Lightning once, and the others are forks of it: a new one takes milliseconds instead
of five seconds. Where forking is unsafe (macOS, Windows) each process makes its own imports.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext
from typing import Any

from normexp.machine import memory
from normexp.sweeps.job import STOPS, Job, Outcome, work
from normexp.sweeps.options import Options
from normexp.sweeps.place import Place

PRELOAD = ["normexp.sweeps.preload"]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Slot:
    """A process that trains one run after the other, with environment variables of its own. A pool of one process each:
    one that is killed takes no other along, and it is known whose run was lost."""

    def __init__(self, environment: Mapping[str, str]):
        self.environment = environment
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, job: Job) -> "Future[Outcome]":
        if self._pool is None:
            around = ({**os.environ, **self.environment},)
            self._pool = ProcessPoolExecutor(1, processes(), initializer=begin, initargs=around)
            self._pid = self._pool.submit(os.getpid)
        return self._pool.submit(work, job)

    def signal(self, number: int) -> None:
        with contextlib.suppress(BrokenExecutor, ProcessLookupError):
            os.kill(self._pid.result(), number)

    def end(self, *, wait: bool = False) -> None:
        """End the process after its run. The next run gets a new one."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait)
        self._pool = None


class ThisMachine(Place):
    """As many jobs at a time as there are slots. If this process dies, its jobs stop themselves.

    Args:
        environments: environment variables of each slot, e.g. `{"CUDA_VISIBLE_DEVICES": "1"}`.
    """

    def __init__(self, environments: Sequence[Mapping[str, str]]):
        self.at_once = len(environments)
        self._free = [Slot(environment) for environment in reversed(environments)]
        self._busy: dict[Future[Outcome], Slot] = {}

    def submit(self, job: Job) -> "Future[Outcome]":
        slot = self._free.pop()
        try:
            future = slot.submit(job)
        except BrokenExecutor:  # its process was killed while it waited
            slot.end()
            future = slot.submit(job)
        self._busy[future] = slot
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: "Future[Outcome]") -> None:
        slot = self._busy.pop(future)
        if future.exception() or not future.result().clean:
            slot.end()
        self._free.append(slot)

    def cancel(self, *, force: bool) -> None:
        for slot in list(self._busy.values()):
            slot.signal(signal.SIGKILL if force else signal.SIGTERM)

    def close(self) -> None:
        self.cancel(force=False)
        for slot in [*self._busy.values(), *self._free]:
            slot.end(wait=True)

    def __str__(self) -> str:
        return f"{self.at_once} at a time"


def slots(trainers: Sequence[Mapping[str, Any]], options: Options, most: int) -> list[dict[str, str]]:
    """Environment of each slot, as many as the memory holds. On CPUs there are `most`, or fewer for runs on several
    devices. With GPUs each slot sees one, which `runs_per_gpu` slots share. If some run asks for several GPUs, every
    run sees all, and runs go one at a time."""
    devices = [trainer.get("devices", 1) for trainer in trainers]
    gpus = [] if all(trainer.get("accelerator") == "cpu" for trainer in trainers) else visible_gpus()
    if not gpus:
        several = max((n for n in devices if isinstance(n, int)), default=1)
        found: list[dict[str, str]] = [{}] * (options.workers or max(1, most // max(1, several)))
    elif any(n != 1 for n in devices):
        found = [{}] * (options.workers or 1)
    else:
        count = options.workers or len(gpus) * options.runs_per_gpu
        found = [{"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} for index in range(count)]
    need = options.memory_in()
    return found[: max(1, int(memory() / need))] if need else found


def visible_gpus() -> list[str]:
    """Names for CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name.strip()]
    import torch  # takes seconds

    return [str(index) for index in range(torch.cuda.device_count())]


def processes() -> BaseContext:
    """What starts processes here. On Linux it is a server, which begins its imports at once, with blocked signals:
    Slurm and a terminal send theirs to all processes, and without the server the exits of its forks are unknown."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    # Libraries read them when they are loaded; each run sets its own number of threads.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    resource_tracker.ensure_running()  # which unblocks two of them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def begin(environment: Mapping[str, str]) -> None:
    """The start of a slot's process. Signals of a terminal or of Slurm reach it too; but the parent decides, and then
    sends SIGTERM, which a run answers with a checkpoint."""
    os.environ.clear()
    os.environ.update(environment)
    for number in STOPS:
        signal.signal(number, _leave_it_to_the_parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _end(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _leave_it_to_the_parent(number: int, frame: Any) -> None:
    """Do nothing. As a handler, it keeps a stopped run from asking Slurm to start it again."""


def _follow_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    while True:  # the first one lets a run save, the next one ends the process
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
