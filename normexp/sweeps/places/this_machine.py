"""Jobs in processes of this machine: each has a console log and its share of the threads, and is stopped cleanly.

A server process makes the common imports once, and each job is a fork of it. So a new process takes milliseconds
instead of the five seconds for importing torch and Lightning. Where forking is unsafe (macOS, Windows), each job makes
its own imports.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from normexp.sweeps.places.child import PRELOAD, STOPS, THREADS, enter
from normexp.sweeps.places.place import Ended, Event, Job, Place, Started, each

GRACE = 60.0  # seconds between the request to stop and the kill, at a time limit


class _Running(NamedTuple):
    process: BaseProcess
    job: Job
    slot: Mapping[str, str]
    until: float  # end of its time


class ThisMachine(Place):
    """As many jobs at a time as there are slots. If this process dies, its jobs stop themselves.

    Args:
        slots: environment variables of each place for a job, e.g. `{"CUDA_VISIBLE_DEVICES": "1"}`.
        threads: CPU threads of each job. With more threads than cores, jobs take many times as long.
        time_limit: seconds after which a job saves a checkpoint and makes room for others; None for no limit.
    """

    def __init__(
        self,
        target: Callable[[Any], None],
        slots: Sequence[Mapping[str, str]],
        threads: int,
        time_limit: float | None = None,
    ):
        super().__init__(target)
        self.at_once, self.threads, self.time_limit = len(slots), threads, time_limit
        self._free = list(reversed(slots))
        self._running: dict[int, _Running] = {}  # by the process's sentinel
        self._started: list[Event] = []
        self._timed_out: set[int] = set()
        # Libraries read these variables when they are loaded.
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
        self._context = processes()  # whose server makes its imports while the caller still checks the grid

    @property
    def room(self) -> int:
        return len(self._free)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        for job in jobs:
            slot = self._free.pop()
            job.log.parent.mkdir(parents=True, exist_ok=True)
            process = self._context.Process(  # type: ignore[attr-defined]
                target=enter, args=(self.target, job, dict(slot))
            )
            process.start()
            until = time.monotonic() + (self.time_limit or float("inf"))
            self._running[process.sentinel] = _Running(process, job, slot, until)
            self._started.append(Started(job))
        return []

    def poll(self, seconds: float) -> list[Event]:
        events, self._started = self._started, []
        self._watch_the_clock()
        if not self._running:
            time.sleep(0 if events else seconds)  # an empty wait is an error on Windows
            return events
        ready = connection.wait(list(self._running), timeout=0 if events else seconds)
        for sentinel in [own for own in self._running if own in ready]:
            own = self._running.pop(sentinel)
            own.process.join()
            self._free.append(own.slot)
            code = own.process.exitcode or 0
            timed_out = sentinel in self._timed_out
            self._timed_out.discard(sentinel)
            lost = f"killed by signal {-code}" if code < 0 else None
            events.append(Ended(own.job, code, lost, timed_out))
        return events

    def _watch_the_clock(self) -> None:
        now = time.monotonic()
        for sentinel, own in self._running.items():
            if now > own.until + GRACE:
                own.process.kill()
            elif now > own.until and sentinel not in self._timed_out:
                self._timed_out.add(sentinel)
                own.process.terminate()

    def stop(self, *, force: bool) -> None:
        for own in self._running.values():
            own.process.kill() if force else own.process.terminate()

    def wait(self) -> None:
        """Until no job is left."""
        for own in self._running.values():
            own.process.join()

    def __str__(self) -> str:
        return f"{self.at_once} at a time, {each(self.threads)}"


def processes() -> BaseContext:
    """What starts processes here. On Linux it is the server that imports, which runs from now on."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    _start_server()
    return context


def _start_server() -> None:
    """Start the server with blocked signals. Slurm sends its signals to all processes of a job. The server must survive
    them, or its jobs would seem to have ended. Signals stay blocked in its children until `enter` can handle them."""
    if forkserver._forkserver._forkserver_pid is None:  # type: ignore[attr-defined]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        resource_tracker.ensure_running()  # which unblocks two of them
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
