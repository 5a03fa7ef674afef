"""Jobs of a Slurm cluster, through submitit. They are arrays, and a later launch finds them by their names."""

import contextlib
import getpass
import json
import math
import pickle
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.format import duration, pluralize
from normexp.runs.files import write_json
from normexp.sweeps.places.place import Ended, Event, Job, Options, Place, Started, checkpoints
from normexp.sweeps.places.this_machine import STOPS, Share, run_share

if TYPE_CHECKING:
    from submitit.core.utils import DelayedSubmission

MOST = 1000  # jobs of one launch that run or wait at a time; Slurm's default limit of an array is 1001
DEFAULT_LIMIT = 3600.0  # seconds
BEFORE_THE_END = 90  # seconds between the signal and the end of a job's time
FULL_SECONDS = 30.0  # wait after a full queue
LATE_SECONDS = 10.0  # a file system may take so long to show a node's files
MOST_IN_VAIN = 3
RESTART = ("SIGUSR1", "SIGUSR2")  # Slurm sends one of them before it ends a job
# In any other state, a job has ended.
ALIVE = {
    "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING",
    "RESV_DEL_HOLD", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED",
}  # fmt: skip
# Parts of sbatch's messages when it may take the job later.
FULL = ("submit limit", "temporarily", "try again", "timed out", "unable to contact")
# A limit of the account, which a line of its own names. Only one on the number of jobs passes by waiting.
LIMIT = re.compile(r"\b(?:qos|assoc)\w*limit\b", re.IGNORECASE)
SECONDS = 60  # for an answer
ASKED, PAUSE = 5, 5.0  # so often, with so many seconds in between, before Slurm counts as silent
RESTARTS = 10**6  # after time limits; submitit asks for a number


@dataclass
class _Open:
    """A Slurm job and its runs."""

    jobs: list[Job]
    result: Path  # written when the job ends by itself
    running: bool = False
    gone: float | None = None  # time since which Slurm lists it neither as waiting nor as running


class Slurm(Place):
    """Its jobs survive this process. `stop` ends them.

    Args:
        folder: of this launch. `slurm/` below it must be seen by the nodes.
    """

    beside = " plus the wait in the queue and the start of each job"

    def __init__(self, target: Callable[[Any], Any], options: Options, folder: Path, *, threads: int):
        super().__init__(target)
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise ValueError('place=slurm: needs submitit; pip install "normexp[slurm]"') from None
        if shutil.which("sbatch") is None:
            raise ValueError("place=slurm: no sbatch on the path; start this where jobs are submitted")
        self.options, self.threads = options, threads
        self.folder = folder / "slurm"
        self.limit = options.time_limit_in() or DEFAULT_LIMIT
        shared = int(1 / options.gpus) if options.gpus and options.gpus < 1 else 1
        self.together = max(shared, options.runs_per_gpu if options.gpus else 1)  # runs of one job
        self.at_once = options.workers or MOST
        self._open: dict[str, _Open] = {}  # by Slurm's number of the job
        self._names: set[str] = set()
        self._full_until = self._next_look = 0.0

    @property
    def room(self) -> int:
        if time.monotonic() < self._full_until:
            return 0
        return max(0, self.at_once - len(self._open)) * self.together

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        shares = [list(jobs[start : start + self.together]) for start in range(0, len(jobs), self.together)]
        rest = [job for share in shares[MOST:] for job in share]
        shares = shares[:MOST]
        name = f"normexp-{uuid.uuid4().hex[:12]}"
        # Written before the submission, so that the jobs can always be found again.
        self.folder.mkdir(parents=True, exist_ok=True)
        record = self.folder / f"{name}.json"
        write_json(record, [[job.key for job in share] for share in shares])
        try:
            numbers = self._array(name, shares)
        except Refused as refusal:
            record.unlink()
            if not refusal.full:
                raise ValueError(f"place=slurm: {refusal}") from None
            self.said.append(f"the queue is full ({refusal}): {len(jobs)} runs wait")
            self._full_until = time.monotonic() + FULL_SECONDS
            return list(jobs)
        self._names.add(name)
        for number, share in zip(numbers, shares, strict=True):
            self._open[number] = _Open(share, result_of(self.folder, number))
        return rest

    def _array(self, name: str, shares: list[list[Job]]) -> list[str]:
        """Put jobs into the queue. Returns their numbers."""
        requested = dict(self.options.slurm)
        if need := self.options.memory_in():
            requested.setdefault("mem", f"{math.ceil(need * self.together / 2**20)}M")
        if self.options.gpus:
            requested.setdefault("gpus_per_node", math.ceil(self.options.gpus))
        calls = [SlurmShare(Share(self.target, share, self.threads)) for share in shares]
        parameters = {
            "job_name": name,
            "time": max(1, math.ceil(self.limit / 60)),
            "signal_delay_s": min(BEFORE_THE_END, int(self.limit / 6)),
            "cpus_per_task": self.threads * self.together,
            "array_parallelism": self.at_once,
            "stderr_to_stdout": True,
            **requested,
        }
        return submit_array(self.folder, parameters, calls)

    def _wait(self, seconds: float) -> list[Event]:
        if not self._open or time.monotonic() < self._next_look:
            time.sleep(seconds)
            return []
        self._next_look = time.monotonic() + (1.0 if len(self._open) < 100 else 5.0)
        rows = _queue(self._names, "--states=all")  # with those that ended a few minutes ago
        if rows is None:  # the controller does not answer, so the states are unknown
            return []
        states = {number: state for number, _, _, state in rows}
        return [event for number in list(self._open) for event in self._look(number, states.get(number, ""))]

    def _look(self, number: str, state: str) -> Iterator[Event]:
        slurm_job = self._open[number]
        if state == "RUNNING" and not slurm_job.running:
            slurm_job.running = True
            yield from map(Started, slurm_job.jobs)
        if state in ALIVE:
            slurm_job.gone = None
            return
        slurm_job.gone = slurm_job.gone or time.monotonic()
        codes = read_result(slurm_job.result)
        if codes is None and state != "CANCELLED" and time.monotonic() < slurm_job.gone + LATE_SECONDS:
            return
        del self._open[number]
        for job in slurm_job.jobs:
            if codes is not None:
                yield Ended(job, codes.get(job.key))
            elif state == "CANCELLED":
                yield Ended(job, 143)
            elif state == "OUT_OF_MEMORY":
                with job.log.open("a") as file:
                    file.write("Error: out of memory; give it more (memory)\n")
                yield Ended(job, 137)
            else:
                why = f"Slurm job {number} ended{f' ({state.lower()})' if state else ''} without a result"
                yield Ended(job, None, why, timed_out=state == "TIMEOUT")

    def adopt(self, jobs: Sequence[Job]) -> list[Job]:
        missing = {job.key: job for job in jobs}
        records = {path.stem: path for path in self.folder.parent.parent.glob("*/slurm/normexp-*.json")}
        if not records:
            return []
        alive = running_arrays(records)
        adopted = []
        for (name, index), number in alive.items():
            keys = json.loads(records[name].read_text())[index]
            share = [missing.pop(key) for key in keys if key in missing]
            if share:
                self._names.add(name)
                self._open[number] = _Open(share, result_of(records[name].parent, number))
                adopted += share
        if adopted:
            self.said.append(
                f"{len(adopted)} runs of an earlier launch still run or wait: they are this launch's now"
            )
        return adopted

    def stop(self, *, force: bool) -> None:
        """Waiting jobs end at once, running ones after they have saved, or at once with `force`."""
        if not self._open:
            return
        command = ["scancel", f"--user={getpass.getuser()}", f"--name={','.join(self._names)}"]
        for more in (["--state=PENDING"], [] if force else ["--signal=TERM"]):
            subprocess.run([*command, *more], capture_output=True, timeout=SECONDS)

    def close(self) -> None:
        """Do nothing: the jobs continue."""

    def __str__(self) -> str:
        together = f", {self.together} to a job" if self.together > 1 else ""
        limit = f"{duration(self.limit)} at a time, then requeued"
        return f"jobs of Slurm{together}, {pluralize(self.threads, 'thread')} each, {limit}"


def result_of(folder: Path, number: str) -> Path:
    """The file in which submitit stores a job's result."""
    return folder / f"{number}_0_result.pkl"


class Refused(Exception):
    """Slurm refuses a job. `full`: it may take it later."""

    def __init__(self, message: str):
        super().__init__(message)
        limits = LIMIT.findall(message)
        self.full = (
            all("submit" in limit.lower() for limit in limits)
            if limits
            else any(part in message.lower() for part in FULL)
        )


def submit_array(
    folder: Path, parameters: Mapping[str, Any], calls: Sequence[Callable[[], Any]]
) -> list[str]:
    """Put an array of jobs into the queue. Returns their numbers. Raises Refused, or ValueError for a parameter that
    sbatch does not know."""
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=RESTARTS)
    try:
        executor.update_parameters(**parameters)
    except ValueError as error:
        raise ValueError(f"slurm: {str(error).splitlines()[0]}") from None
    try:
        with executor.batch():
            jobs = [executor.submit(call) for call in calls]
    except (FailedJobError, FailedSubmissionError) as error:
        lines = [line for line in str(error).splitlines() if "rror" in line] or str(error).splitlines()[-1:]
        said = [line.removeprefix("sbatch: ").removeprefix("error: ").strip() for line in lines]
        raise Refused("; ".join(dict.fromkeys(said))) from None
    return [job.job_id for job in jobs]


def running_arrays(names: Iterable[str]) -> dict[tuple[str, int], str]:
    """(name, place in its array) -> number of the jobs that run or wait. Raises ValueError without an answer: whoever
    takes silence for an empty queue starts everything twice."""
    for left in reversed(range(ASKED)):
        if (rows := _queue(names)) is not None:
            return {(name, index): number for number, name, index, state in rows if state in ALIVE}
        if left:
            time.sleep(PAUSE)
    raise ValueError(
        "place=slurm: squeue does not answer, and jobs of an earlier launch may still run; try again when it does"
    )


def _queue(names: Iterable[str], *options: str) -> list[tuple[str, str, int, str]] | None:
    whose = f"--user={getpass.getuser()}", f"--name={','.join(names)}"
    command = ["squeue", "--noheader", "--array", "--format=%F|%K|%T|%j", *whose, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    rows = []
    for line in done.stdout.splitlines():
        job, index, state, name = line.strip().split("|")
        number = f"{job}_{index}" if index.isdecimal() else job
        rows.append((number, name, int(index) if index.isdecimal() else 0, state))
    return rows


def read_result(path: Path) -> dict[str, int | None] | None:
    """Exit codes by key from a job's result; None if it left none, or only an error."""
    try:
        kind, result = pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
    return result if kind == "success" else None


def _preempted() -> bool:
    from normexp.training.survive import preempted  # loads Lightning, which most jobs need not wait for

    return preempted()


class SlurmShare:
    """The function that submitit calls on the node."""

    def __init__(self, share: Share):
        self.share = share
        self.in_vain = 0  # starts in a row that wrote no checkpoint

    def __call__(self) -> dict[str, int | None]:
        received: list[int] = []  # from here on, since submitit passes a signal over while a job starts
        previous = {number: signal.signal(number, lambda n, _: received.append(n)) for number in STOPS}
        import submitit

        with contextlib.suppress(OSError):  # left by an earlier start of this job
            submitit.JobEnvironment().paths.result_pickle.unlink()
        before = self._checkpoints()
        codes = run_share(self.share, lambda: bool(received))
        for number, handler in previous.items():
            signal.signal(number, handler)
        restart = any(signal.Signals(number).name in RESTART for number in received) or (
            signal.SIGTERM in received and _preempted()
        )
        if not restart or not any(codes.values()):
            return codes
        self.in_vain = self.in_vain + 1 if self._checkpoints() == before else 0
        if self.in_vain < MOST_IN_VAIN:
            submitits: Any = previous[signal.SIGUSR2]  # puts the job back into the queue and exits
            submitits(signal.SIGUSR2, None)
        for job in self.share.jobs:
            with job.log.open("a") as file:
                file.write(
                    f"Error: no checkpoint within its time limit, {MOST_IN_VAIN} starts in a row; give it more\n"
                )
        return {key: code and 1 for key, code in codes.items()}

    def _checkpoints(self) -> list[float]:
        return checkpoints(folder for job in self.share.jobs for folder in job.folders)

    def checkpoint(self) -> "DelayedSubmission":
        """Let submitit start the same job again. Each run resumes from its own checkpoint."""
        from submitit.core.utils import DelayedSubmission

        return DelayedSubmission(self)
