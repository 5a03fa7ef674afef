"""Jobs in processes of their own: a console log each, threads shared out, stopped cleanly.

A server process imports what every job needs once, and each job is a fork of it: a fresh process within milliseconds
instead of the five seconds that importing torch and Lightning takes. Where forking is not safe (macOS, Windows) each
job pays for its imports.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from normexp.sweeps.turns import Elsewhere, Turns

# What every job imports, late or early; a name that is absent is skipped.
PRELOAD = [
    "normexp.build", "normexp.training.replicas.launch_replicas", "normexp.data", "normexp.models", "normexp.norms",
    "normexp.monitors.activations", "normexp.monitors.charts", "normexp.monitors.gradients", "normexp.schedules",
    "sklearn.datasets", "torch.utils.tensorboard",
]  # fmt: skip
POLL_SECONDS = 0.2
AT_ONCE = (signal.SIGINT, signal.SIGTERM)  # the second of these kills
# Slurm and submitit send the others before a job's time is over.
STOPS = AT_ONCE + tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))


@dataclass
class Job:
    """What one process does."""

    index: int  # whose it is, for the caller
    payload: Any  # what the target is called with; travels by pickle
    log: Path  # stdout and stderr of the process


@dataclass
class Started:
    """A job's process has started."""

    job: Job


@dataclass
class Ended:
    """A job's process has ended."""

    job: Job
    exit_code: int


@dataclass
class Busy:
    """A job was found at work in another launch; its turn comes again when that one is done."""

    job: Job


@dataclass
class Adopted:
    """A job needs no process: another launch has done it meanwhile."""

    job: Job


Event = Started | Ended | Busy | Adopted


class Pool:
    """Runs jobs, as many at a time as there are slots.

    Ctrl-C, SIGTERM, SIGUSR1 or SIGUSR2 starts no further job, asks the running ones to stop and waits for them; after
    one of the first two a second one kills them. If this process dies, its jobs stop themselves.

    Args:
        threads: CPU threads of each job. Two processes that spin on the same cores take many times as long.
    """

    def __init__(self, threads: int):
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(threads)  # inherited; these libraries read it when they are loaded
        method = "forkserver" if sys.platform == "linux" else "spawn"
        self.context = multiprocessing.get_context(method)
        if method == "forkserver":
            self.context.set_forkserver_preload(PRELOAD)
            _start_server()  # it imports while the caller still checks its grid
        self.stopped_by: int | None = None  # the signal that ended the sweep
        self.previous: Any = None  # whoever answered that signal before
        self._kill = False

    def run(
        self,
        target: Callable[[Any], None],
        jobs: Sequence[Job],
        slots: Sequence[Mapping[str, str]],
        look: Callable[[Job], Elsewhere] = lambda job: Elsewhere.NOTHING,
    ) -> Iterator[Event]:
        """Call `target(job.payload)` for each job in a process; yields a job when it starts and its end when it ends.

        Args:
            target: a function that a fresh process can import.
            slots: environment variables of each place, e.g. `{"CUDA_VISIBLE_DEVICES": "1"}`.
            look: what other launches do about a job.
        """
        turns, told, free = Turns(jobs, look), set(), list(reversed(slots))
        running: dict[int, tuple[BaseProcess, Job, Mapping[str, str]]] = {}  # by the process's sentinel
        asked = False
        previous = {number: signal.signal(number, self._stop) for number in STOPS}
        try:
            while running or (turns and self.stopped_by is None):
                while free and self.stopped_by is None and (turn := turns.take()):
                    job, found = turn
                    if found is Elsewhere.FINISHED:
                        yield Adopted(job)
                        continue
                    slot = free.pop()
                    job.log.parent.mkdir(parents=True, exist_ok=True)
                    process = self.context.Process(target=_enter, args=(target, job, dict(slot)))
                    process.start()
                    running[process.sentinel] = (process, job, slot)
                    yield Started(job)
                for job in turns.busy:
                    if job.index not in told:
                        told.add(job.index)
                        yield Busy(job)
                if self.stopped_by is not None and not asked:
                    asked = True
                    _each(running, "terminate")
                if self._kill:
                    _each(running, "kill")
                if not running:
                    time.sleep(POLL_SECONDS)  # an empty wait is an error on Windows
                for sentinel in connection.wait(list(running), timeout=POLL_SECONDS) if running else ():
                    process, job, slot = running.pop(sentinel)
                    process.join()
                    free.append(slot)
                    yield Ended(job, process.exitcode)
        finally:
            _each(running, "terminate")  # some are left only after an error in whoever consumes the events
            for number, handler in previous.items():
                signal.signal(number, handler)
            self.previous = previous.get(self.stopped_by)

    def _stop(self, number: int, frame: Any) -> None:
        self._kill = self._kill or (number in AT_ONCE and self.stopped_by in AT_ONCE)
        self.stopped_by = number


def _start_server() -> None:
    """Slurm sends its signals to all processes of a job: the server must outlive them, or its jobs look as if they had
    ended. Blocked signals stay blocked in its children, where they wait until `_enter` has answers."""
    if forkserver._forkserver._forkserver_pid is None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        resource_tracker.ensure_running()  # which unblocks two of them
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _each(running: Mapping[int, tuple], method: str) -> None:
    for process, _, _ in running.values():
        getattr(process, method)()


def _enter(target: Callable[[Any], None], job: Job, environment: dict[str, str]) -> None:
    """First function of a job's process."""
    os.environ.update(environment)
    # Ctrl-C and Slurm's signals reach all processes; who decides is the parent, which then sends SIGTERM.
    for number in STOPS:
        signal.signal(number, _leave_it_to_the_parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_follow_parent, daemon=True).start()
    with job.log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    target(job.payload)


def _leave_it_to_the_parent(number: int, frame: Any) -> None:
    """A function, so that a run which was stopped hands its signal on to here, and not to Slurm."""


def _follow_parent() -> None:
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGTERM)
