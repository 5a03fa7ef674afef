"""Jobs in processes of this machine: each has a console log and its share of the threads, and is stopped cleanly.

A process lives as long as the launch and does one job after the other, in a place for jobs of its own. A server process
makes the common imports once, and the others are forks of it: so a new process takes milliseconds instead of the five
seconds for importing torch and Lightning, and only its first run warms up. Where forking is unsafe (macOS, Windows),
each process makes its own imports.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from normexp.config.errors import one_line
from normexp.format import pluralize
from normexp.machine import peak_memory
from normexp.sweeps.places.place import Ended, Event, Job, Place, Started, Used
from normexp.training.folder import WAIT

GRACE = 60.0  # seconds between the request to stop and the kill, at a time limit
PRELOAD = ["normexp.sweeps.places.preloaded"]
AT_ONCE = (signal.SIGINT, signal.SIGTERM)  # the second of these kills
# Slurm and submitit send the others before a job's time is over.
STOPS = AT_ONCE + tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class _Worker:
    """A process, and the job that it does."""

    def __init__(self, context: BaseContext, target: Callable[[Any], Any], slot: Mapping[str, str]):
        self.slot = slot
        self.jobs, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=work, args=(target, theirs, dict(slot))
        )
        self.process.start()
        theirs.close()

    def take(self, job: Job, seconds: float) -> None:
        """Begin a job, for so many seconds. Raises OSError if the process is gone."""
        self.jobs.send(job)
        self.job, self.until, self.timed_out = job, time.monotonic() + seconds, False

    def answer(self) -> tuple[bool, Used] | None:
        """Whether the process that has done its job takes another one, and what it used; None where it died."""
        try:
            return self.jobs.recv() if self.jobs.poll() else None
        except (EOFError, OSError):
            return None

    def leave(self) -> int:
        """Let the process end. Returns its exit code."""
        self.jobs.close()
        self.process.join()
        return self.process.exitcode or 0


class ThisMachine(Place):
    """As many jobs at a time as there are slots. If this process dies, its jobs stop themselves.

    Args:
        target: gives True if its process may do another job.
        slots: environment variables of each place for a job, e.g. `{"CUDA_VISIBLE_DEVICES": "1"}`.
        threads: CPU threads of each job. With more threads than cores, jobs take many times as long.
        time_limit: seconds after which a job saves a checkpoint and makes room for others; None for no limit.
    """

    def __init__(
        self,
        target: Callable[[Any], Any],
        slots: Sequence[Mapping[str, str]],
        threads: int,
        time_limit: float | None = None,
    ):
        super().__init__(target)
        self.at_once, self.threads, self.time_limit = len(slots), threads, time_limit
        self._free = list(reversed(slots))  # without a process
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        # Libraries read these variables when they are loaded.
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
        self._context = processes()  # whose server makes its imports while the caller still checks the grid

    @property
    def room(self) -> int:
        return len(self._free) + len(self._idle)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        for job in jobs:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            self._busy.append(self._worker_with(job))
            self._started.append(Started(job))
        return []

    def _worker_with(self, job: Job) -> _Worker:
        seconds = self.time_limit or float("inf")
        while self._idle:
            worker = self._idle.pop()
            try:
                worker.take(job, seconds)
                return worker
            except OSError:  # it was killed while it waited
                worker.leave()
                self._free.append(worker.slot)
        worker = _Worker(self._context, self.target, self._free.pop())
        worker.take(job, seconds)
        return worker

    def _wait(self, seconds: float) -> list[Event]:
        self._watch_the_clock()
        if not self._busy:
            time.sleep(seconds)  # an empty wait is an error on Windows
            return []
        ends = {end: worker for worker in self._busy for end in (worker.jobs, worker.process.sentinel)}
        ready = connection.wait(list(ends), timeout=seconds)
        return [self._ended(worker) for worker in dict.fromkeys(ends[end] for end in ready)]  # type: ignore[index]

    def _ended(self, worker: _Worker) -> Ended:
        self._busy.remove(worker)
        answer = worker.answer()
        again, used = answer or (False, None)
        code = 0
        if again:
            self._idle.append(worker)
        else:
            left = worker.leave()
            code = 0 if answer else left
            self._free.append(worker.slot)
        lost = f"killed by signal {-code}" if code < 0 else None
        return Ended(worker.job, code, lost, worker.timed_out, used)

    def _watch_the_clock(self) -> None:
        now = time.monotonic()
        for worker in self._busy:
            if now > worker.until + GRACE:
                worker.process.kill()
            elif now > worker.until and not worker.timed_out:
                worker.timed_out = True
                worker.process.terminate()

    def stop(self, *, force: bool) -> None:
        for worker in self._busy:
            worker.process.kill() if force else worker.process.terminate()

    def close(self) -> None:
        super().close()
        while self._idle:
            worker = self._idle.pop()
            worker.leave()
            self._free.append(worker.slot)

    def wait(self) -> None:
        """Until no job is left."""
        for worker in self._busy:
            worker.process.join()

    def __str__(self) -> str:
        return f"{self.at_once} at a time, {pluralize(self.threads, 'thread')} each"


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


def work(target: Callable[[Any], Any], jobs: Connection, environment: Mapping[str, str]) -> None:
    """The life of a process: it takes jobs until the parent closes the connection, and answers each that is done.

    So what the first run of a process makes once (kernels, memory, pages that were shared) serves the next ones too.
    After a job whose target gives False it ends. A job that fails leaves a traceback and one line in its log, and ends
    the process with status 1.
    """
    os.environ.update(environment)
    os.environ[WAIT] = "1"  # another launch may be training the same run
    _answer_signals()
    threading.Thread(target=_follow_parent, daemon=True).start()
    again = True
    while again:
        try:
            job: Job = jobs.recv()
        except EOFError:
            return
        before = time.process_time()
        again = _do(target, job)
        jobs.send((again, Used(time.process_time() - before, peak_memory())))


def _do(target: Callable[[Any], Any], job: Job) -> bool:
    _answer_signals()  # as libraries may have set them in the job before
    sys.stdout.flush()
    with job.log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]
    try:
        return target(job.payload) is True
    except Exception as error:
        traceback.print_exc()
        print(f"Error: {one_line(error)}", flush=True)
        sys.exit(1)


def _answer_signals() -> None:
    """Ctrl-C and Slurm's signals reach all processes. The parent decides, and then sends SIGTERM."""
    for number in STOPS:
        signal.signal(number, _leave_it_to_the_parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)  # until training answers it, and again when training has
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def _end(number: int, frame: Any) -> None:
    sys.exit(128 + number)


def _leave_it_to_the_parent(number: int, frame: Any) -> None:
    """Do nothing. As a handler, it keeps a stopped run from asking Slurm to start it again."""


def _follow_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


class Inside(Place):
    """One job at a time, on all threads of this process. A signal stops the job itself, which exits with 128 plus the
    signal's number."""

    at_once, threads = 1, 0

    def __init__(self, target):
        super().__init__(target)
        self._next: list[Job] = []

    @property
    def room(self) -> int:
        return 1 - len(self._next)

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        self._next = list(jobs[:1])
        self._started = [*map(Started, self._next)]
        return list(jobs[1:])

    def _wait(self, seconds: float) -> list[Event]:
        if not self._next:
            return []
        job, argv = self._next.pop(), list(sys.argv)
        try:
            return [Ended(job, self._run(job))]
        finally:
            sys.argv = argv

    def _run(self, job: Job) -> int:
        before = os.environ.get(WAIT)
        os.environ[WAIT] = "1"  # another launch may be training the same run
        try:
            self.target(job.payload)
        except SystemExit as stop:  # interrupted: its checkpoint is kept
            return int(stop.code or 0)
        except Exception as error:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.write_text(f"{traceback.format_exc()}Error: {one_line(error)}\n")
            return 1
        finally:
            os.environ.pop(WAIT)
            if before is not None:
                os.environ[WAIT] = before
        return 0

    def stop(self, *, force: bool) -> None:
        self._started, self._next = [Ended(job, 143) for job in self._next], []

    def __str__(self) -> str:
        return "one by one, in here"


POLL_SECONDS = 0.2
DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")  # a cluster sets them for each job


def launch_environment() -> dict[str, str]:
    """The environment variables that a launch passes to its jobs."""
    return {name: value for name, value in os.environ.items() if name.startswith(("NORMEXP_", "HYDRA_"))}


@dataclass
class Share:
    """Jobs that one place of a cluster runs at the same time, e.g. because they share a GPU.

    Args:
        threads: CPU threads of each job.
        folder: the working directory of the launch, where relative paths start.
        environment: environment variables of all jobs, by default those of the launch.
    """

    target: Callable[[Any], Any]
    jobs: Sequence[Job]
    threads: int
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=launch_environment)


def run_share(share: Share, stopped: Callable[[], bool] = lambda: False) -> dict[str, int | None]:
    """Run the jobs. Returns the exit code of each by its key. A KeyboardInterrupt, by which Ray cancels a task, ends
    them cleanly.

    Args:
        stopped: whether the jobs must save and end. It is called a few times per second.
    """
    os.chdir(share.folder)
    # Pass it explicitly, because the server that forks the jobs keeps the environment of its start.
    environment = {**{name: os.environ[name] for name in DEVICES if name in os.environ}, **share.environment}
    place = ThisMachine(share.target, [environment] * len(share.jobs), share.threads)
    place.submit(share.jobs)
    codes: dict[str, int | None] = {}
    stopping = False
    try:
        while len(codes) < len(share.jobs):
            if stopped() and not stopping:
                stopping = True
                place.stop(force=False)
            for event in place.poll(POLL_SECONDS):
                if isinstance(event, Ended):
                    codes[event.job.key] = event.exit_code
    finally:
        place.close()
        place.wait()
    return codes
