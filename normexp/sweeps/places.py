"""Places compute jobs: the interface, this process, and processes of this machine; clusters.py has the others.

Each slot of this machine has a process that trains one run after the other. A server process imports torch and
Lightning once, and they are forks of it: a new one takes milliseconds instead of five seconds. Where forking is unsafe
(macOS, Windows) each process makes its own imports.
"""

import contextlib
import importlib
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
from pathlib import Path
from typing import Any

from normexp.config.process import STOPS, fast_imports
from normexp.machine import cores
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
KILLED = "its process was killed; is there enough memory?"
PRELOADED = (  # what every run imports sooner or later
    "normexp.training.train", "normexp.data", "normexp.models", "normexp.norms", "normexp.monitors.activations",
    "normexp.monitors.charts", "normexp.monitors.gradients", "normexp.schedules",
    "torch.utils.tensorboard",
)  # fmt: skip


class Place:
    """Computes jobs. It is used from one thread and never gets more than `at_once` jobs. Its text says how runs are
    computed, for the plan: `2 at a time`."""

    at_once: int  # jobs that it takes; a cluster may start fewer

    def submit(self, job: Job) -> "Future[Outcome]":
        """Start or queue a job. Its future fails if the job ends without an outcome; then it is tried again."""
        raise NotImplementedError

    def why_lost(self, future: "Future[Outcome]") -> str:
        """Why a job ended without an outcome, in one line."""
        error = future.exception()
        return KILLED if isinstance(error, BrokenExecutor) else " ".join(str(error).split())

    def draft(self) -> Sequence[str]:
        """Lines that say what a cluster would get, for a plan, which needs none."""
        return ()

    def look(self) -> None:
        """See how the jobs get on. Called a few times per second."""

    def cancel(self) -> None:
        """Ask all jobs to save and end; those that were asked before end at once. Their futures end."""

    def close(self) -> None:
        """Give everything back. Jobs are left only after an error; they are asked to stop."""


class Inside(Place):
    """One job at a time in this process, for debuggers. Signals reach the job itself."""

    at_once = 1

    def submit(self, job: Job) -> "Future[Outcome]":
        future: Future[Outcome] = Future()
        future.set_result(outcome := work(job))
        if outcome.status == "interrupted":
            signal.raise_signal(signal.SIGINT)  # which the run has answered, and now the launch
        return future

    def __str__(self) -> str:
        return "one by one, in this process"


class ThisMachine(Place):
    """As many jobs at a time as there are slots. If this process dies, its jobs stop themselves.

    A slot has environment variables, e.g. `{"CUDA_VISIBLE_DEVICES": "1"}`, and a pool of one process: one that is
    killed takes no other along, and it is known whose run was lost.
    """

    def __init__(self, environments: Sequence[Mapping[str, str]]):
        self.at_once, self.environments = len(environments), environments
        self._free = list(reversed(range(self.at_once)))
        self._pools: dict[int, ProcessPoolExecutor] = {}
        self._processes: dict[int, Future[int]] = {}
        self._busy: dict[Future[Outcome], int] = {}

    def submit(self, job: Job) -> "Future[Outcome]":
        for future in [future for future in self._busy if future.done()]:
            slot = self._busy.pop(future)
            if future.exception() or not future.result().clean:
                self._end(slot)  # the next run gets a new process
            self._free.append(slot)
        slot = self._free.pop()
        try:
            future = self._pool(slot).submit(work, job)
        except BrokenExecutor:  # its process was killed while it waited
            self._end(slot)
            future = self._pool(slot).submit(work, job)
        self._busy[future] = slot
        return future

    def _pool(self, slot: int) -> ProcessPoolExecutor:
        if slot not in self._pools:
            around = ({**os.environ, **self.environments[slot]},)
            self._pools[slot] = ProcessPoolExecutor(1, processes(), initializer=begin, initargs=around)
            self._processes[slot] = self._pools[slot].submit(os.getpid)
        return self._pools[slot]

    def why_lost(self, future: "Future[Outcome]") -> str:
        pool = self._pools.get(slot := self._busy[future])
        started = [*(getattr(pool, "_processes", None) or {}).values()]
        if not started or not isinstance(future.exception(), BrokenExecutor):
            return super().why_lost(future)
        self._end(slot, wait=True)  # then its end is known
        status = started[0].exitcode
        if status in (None, -signal.SIGKILL):
            return KILLED
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with exit status {status}: it called os._exit, or could not be started"

    def _end(self, slot: int, *, wait: bool = False) -> None:
        if pool := self._pools.pop(slot, None):
            pool.shutdown(wait=wait)

    def cancel(self) -> None:
        for slot in [slot for future, slot in self._busy.items() if not future.done()]:
            with contextlib.suppress(BrokenExecutor, ProcessLookupError):
                os.kill(self._processes[slot].result(), signal.SIGTERM)

    def close(self) -> None:
        self.cancel()
        for slot in list(self._pools):
            self._end(slot, wait=True)

    def __str__(self) -> str:
        return f"{self.at_once} at a time"


def choose_place(options: Options, jobs: Sequence[Job], folder: Path) -> Place:
    """The place that the options name, for these jobs; its files go to the `folder` of the launch. Raises ValueError
    with one line if it cannot be used here."""
    threads = max(job.threads for job in jobs)
    match options.place:
        case "here" if options.workers == 0:
            return Inside()
        case "here":
            trainers = [job.spec.config["trainer"] for job in jobs]
            return ThisMachine(slots(trainers, options, threads)[: len(jobs)])
        case "slurm" | "local":
            from normexp.sweeps.clusters import SubmititJobs

            return SubmititJobs(options, folder / options.place, threads)
        case "ray":
            from normexp.sweeps.clusters import RayCluster

            return RayCluster(options, threads)
    raise ValueError(
        f"place={options.place}: has no class; name it in choose_place of normexp/sweeps/places.py"
    )


def slots(trainers: Sequence[Mapping[str, Any]], options: Options, threads: int) -> list[dict[str, str]]:
    """Environment of each slot. On CPUs there is one per core, or fewer for runs of several threads. With GPUs each
    slot sees one, which `runs_per_gpu` slots share. If some run asks for several, runs see all, one at a time."""
    if any(trainer.get("devices", 1) != 1 for trainer in trainers):
        return [{}] * (options.workers or 1)
    gpus = [] if all(trainer.get("accelerator") == "cpu" for trainer in trainers) else visible_gpus()
    if not gpus:
        return [{}] * (options.workers or max(1, cores() // threads))
    count = options.workers or len(gpus) * options.runs_per_gpu
    return [{"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} for index in range(count)]


def visible_gpus() -> list[str]:
    """Names for CUDA_VISIBLE_DEVICES."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
    import torch  # takes seconds

    return [str(index) for index in range(torch.cuda.device_count())]


def processes() -> BaseContext:
    """What starts processes here. On Linux it is a server, which begins its imports at once, with blocked signals:
    Slurm and a terminal send theirs to all processes, and without the server the exits of its forks are unknown."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["normexp.sweeps.places"])
    # Libraries read these variables when they are loaded; each run sets its own number of threads.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    resource_tracker.ensure_running()  # before the signals are blocked, as its start unblocks two of them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def preload() -> None:
    """The imports of the server, once for all runs."""
    # The server takes seconds to end. A pipe behind the command would wait for it.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    with fast_imports():  # no fork collects this garbage, so its memory stays shared
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def begin(environment: Mapping[str, str]) -> None:
    """The start of a slot's process. Signals of a terminal or of Slurm reach it too; but the parent decides, and then
    sends SIGTERM, which a run answers with a checkpoint."""
    os.environ.clear()
    os.environ.update(environment)
    # A handler that does nothing keeps a stopped run from asking Slurm to start it again.
    for number in STOPS:
        signal.signal(number, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    while True:  # the first one lets a run save, the next one ends the process
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)


if "multiprocessing.forkserver" in " ".join(sys.orig_argv):
    preload()
