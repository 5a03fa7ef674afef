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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

# What every job imports, late or early; a name that is absent is skipped.
PRELOAD = [
    "normexp.build", "normexp.training.replicas.launch_replicas", "normexp.data", "normexp.models", "normexp.norms",
    "normexp.monitors.activations", "normexp.monitors.charts", "normexp.monitors.gradients", "normexp.schedules",
    "sklearn.datasets", "torch.utils.tensorboard",
]  # fmt: skip
POLL_SECONDS = 0.2


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


class Pool:
    """Runs jobs, as many at a time as there are slots.

    Ctrl-C or SIGTERM starts no further job, asks the running ones to stop and waits for them; a second one kills them.
    If this process dies, its jobs stop themselves.

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
            forkserver.ensure_running()  # it imports while the caller still checks its grid
        self.stopped_by: int | None = None  # the signal that ended the sweep
        self._kill = False

    def run(
        self, target: Callable[[Any], None], jobs: Sequence[Job], slots: Sequence[Mapping[str, str]]
    ) -> Iterator[Started | Ended]:
        """Call `target(job.payload)` for each job in a process; yields a job when it starts and its end when it ends.

        Args:
            target: a function that a fresh process can import.
            slots: environment variables of each place, e.g. `{"CUDA_VISIBLE_DEVICES": "1"}`.
        """
        waiting, free = list(reversed(jobs)), list(reversed(slots))
        running: dict[int, tuple[BaseProcess, Job, Mapping[str, str]]] = {}  # by the process's sentinel
        asked = False
        previous = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while running or (waiting and self.stopped_by is None):
                while waiting and free and self.stopped_by is None:
                    job, slot = waiting.pop(), free.pop()
                    job.log.parent.mkdir(parents=True, exist_ok=True)
                    process = self.context.Process(target=_enter, args=(target, job, dict(slot)))
                    process.start()
                    running[process.sentinel] = (process, job, slot)
                    yield Started(job)
                if self.stopped_by is not None and not asked:
                    asked = True
                    _each(running, "terminate")
                if self._kill:
                    _each(running, "kill")
                for sentinel in connection.wait(list(running), timeout=POLL_SECONDS):
                    process, job, slot = running.pop(sentinel)
                    process.join()
                    free.append(slot)
                    yield Ended(job, process.exitcode)
        finally:
            _each(running, "terminate")  # some are left only after an error in whoever consumes the events
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: Any) -> None:
        self._kill = self.stopped_by is not None
        self.stopped_by = number


def _each(running: Mapping[int, tuple], method: str) -> None:
    for process, _, _ in running.values():
        getattr(process, method)()


def _enter(target: Callable[[Any], None], job: Job, environment: dict[str, str]) -> None:
    """First function of a job's process."""
    os.environ.update(environment)
    # Ctrl-C reaches the whole process group; who decides is the parent, which then sends SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_follow_parent, daemon=True).start()
    with job.log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    target(job.payload)


def _follow_parent() -> None:
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGTERM)
