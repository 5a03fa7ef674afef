"""Jobs of a Slurm cluster, through submitit. They are arrays, and a later launch finds them by their names."""

import json
import math
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normexp.format import duration
from normexp.runs.files import write_json
from normexp.sweeps.options import Options
from normexp.sweeps.places import slurm_queue
from normexp.sweeps.places.on_node import Share, launch_environment
from normexp.sweeps.places.place import Ended, Event, Job, Place, Started, each

MOST = 1000  # jobs of one launch that run or wait at a time; Slurm's default limit of an array is 1001
DEFAULT_LIMIT = 3600.0  # seconds
BEFORE_THE_END = 90  # seconds between the signal and the end of a job's time
FULL_SECONDS = 30.0  # wait after a full queue
LATE_SECONDS = 10.0  # a file system may take so long to show a node's files


@dataclass
class _Open:
    """A Slurm job and its runs."""

    jobs: list[Job]
    result: Path  # written when the job ends by itself
    running: bool = False
    gone: float | None = None  # time since which Slurm lists it neither as waiting nor as running
    state: str = field(default="")


class Slurm(Place):
    """Its jobs survive this process. `stop` ends them.

    Args:
        folder: of this launch. `slurm/` below it must be seen by the nodes.
    """

    keeps_jobs = True

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
        except slurm_queue.Refused as refusal:
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
        from normexp.sweeps.places.slurm_share import SlurmShare

        own = dict(self.options.slurm)
        if need := self.options.memory_in():
            own.setdefault("mem", f"{math.ceil(need * self.together / 2**20)}M")
        if self.options.gpus:
            own.setdefault("gpus_per_node", math.ceil(self.options.gpus))
        own_part = Path.cwd(), launch_environment()
        calls = [SlurmShare(Share(self.target, share, self.threads, *own_part)) for share in shares]
        parameters = {
            "job_name": name,
            "time": max(1, math.ceil(self.limit / 60)),
            "signal_delay_s": min(BEFORE_THE_END, int(self.limit / 6)),
            "cpus_per_task": self.threads * self.together,
            "array_parallelism": self.at_once,
            "stderr_to_stdout": True,
            **own,
        }
        return slurm_queue.submit(self.folder, parameters, calls)

    def poll(self, seconds: float) -> list[Event]:
        if not self._open or time.monotonic() < self._next_look:
            time.sleep(seconds)
            return []
        self._next_look = time.monotonic() + (1.0 if len(self._open) < 100 else 5.0)
        states = slurm_queue.states(self._names)
        if states is None:  # the controller does not answer, so the states are unknown
            return []
        return [event for number in list(self._open) for event in self._look(number, states.get(number, ""))]

    def _look(self, number: str, state: str) -> Iterator[Event]:
        own = self._open[number]
        if state == "RUNNING" and not own.running:
            own.running = True
            yield from map(Started, own.jobs)
        if state in slurm_queue.ALIVE:
            own.gone = None
            return
        own.gone = own.gone or time.monotonic()
        codes = slurm_queue.read_result(own.result)
        if codes is None and state != "CANCELLED" and time.monotonic() < own.gone + LATE_SECONDS:
            return
        del self._open[number]
        for job in own.jobs:
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
        wanted = {job.key: job for job in jobs}
        records = {path.stem: path for path in self.folder.parent.parent.glob("*/slurm/normexp-*.json")}
        if not records:
            return []
        alive = slurm_queue.arrays(records)
        found = []
        for (name, index), number in alive.items():
            keys = json.loads(records[name].read_text())[index]
            own = [wanted.pop(key) for key in keys if key in wanted]
            if own:
                self._names.add(name)
                self._open[number] = _Open(own, result_of(records[name].parent, number))
                found += own
        if found:
            self.said.append(
                f"{len(found)} runs of an earlier launch still run or wait: they are this launch's now"
            )
        return found

    def stop(self, *, force: bool) -> None:
        if self._open:
            slurm_queue.cancel(self._names, force=force)

    def close(self) -> None:
        """Do nothing: the jobs continue."""

    def __str__(self) -> str:
        together = f", {self.together} to a job" if self.together > 1 else ""
        limit = f"{duration(self.limit)} at a time, then requeued"
        return f"jobs of Slurm{together}, {each(self.threads)}, {limit}"


def result_of(folder: Path, number: str) -> Path:
    """The file in which submitit stores a job's result."""
    return folder / f"{number}_0_result.pkl"
