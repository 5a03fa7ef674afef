"""Jobs of submitit: of a Slurm cluster, or on this machine to try them. A job trains one run; before its time is over,
the run saves, and submitit puts its job back into the queue."""

import math
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from normexp.format import duration, pluralize
from normexp.machine import cores
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options
from normexp.sweeps.place import Lost, Place

MOST = 1000  # jobs of one launch that run or wait at a time; Slurm's default limit of an array is 1001
DEFAULT_LIMIT = 3600.0  # seconds
BEFORE_THE_END = 90  # seconds between the signal and the end of a job's time
LOOK_SECONDS = 2.0
FULL_SECONDS = 30.0  # wait after a full queue
RESTARTS = 10**6  # after time limits; submitit asks for a number


class SubmititJobs(Place):
    """Jobs go on if this process dies. A later launch then waits for those that run.

    Args:
        folder: of submitit's files, which the nodes must see.
    """

    def __init__(self, options: Options, folder: Path, threads: int):
        try:
            import submitit
        except ImportError:
            raise ValueError(f'place={options.place}: needs submitit; pip install "normexp[slurm]"') from None
        self.cluster, self.limit = options.place, options.time_limit_in() or DEFAULT_LIMIT
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError("place=slurm: no sbatch on the path; start this where jobs are submitted")
        if options.gpus and options.gpus % 1:
            raise ValueError(f"gpus={options.gpus}: a job of Slurm has whole GPUs; write gpus=1")
        self.at_once = options.workers or {"slurm": MOST, "local": cores(), "debug": 1}[self.cluster]
        memory = options.memory_in()
        own = {
            "slurm_max_num_timeout": RESTARTS,
        }
        self._executor = submitit.AutoExecutor(
            folder, cluster=self.cluster, **(own if self.cluster == "slurm" else {})
        )
        parameters: dict[str, Any] = {
            "name": "normexp",
            "timeout_min": max(1, math.ceil(self.limit / 60)),
            "cpus_per_task": threads,
            "gpus_per_node": int(options.gpus) if options.gpus else None,
            "mem_gb": memory / 1e9 if memory else None,
            "stderr_to_stdout": True,
            "slurm_array_parallelism": self.at_once,
            "slurm_signal_delay_s": min(BEFORE_THE_END, int(self.limit / 6)),
            **{f"slurm_{name}": value for name, value in options.slurm.items()},
        }
        try:
            self._executor.update_parameters(**parameters)
        except (NameError, ValueError) as error:
            raise ValueError(f"slurm: {str(error).splitlines()[0]}") from None
        self._new: list[tuple[Job, Future[Outcome]]] = []
        self._open: list[tuple[Any, Job, Future[Outcome]]] = []
        self._next_look = 0.0

    def submit(self, job: Job) -> "Future[Outcome]":
        future: Future[Outcome] = Future()
        self._new.append((job, future))
        return future

    def look(self) -> None:
        """Put new jobs into the queue, all in one array, and end the futures of jobs that have ended."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        if self._new:
            self._send()
        for entry in list(self._open):
            submitted, job, future = entry
            if submitted.done():
                self._open.remove(entry)
                self._end(submitted, job, future)

    def _send(self) -> None:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            with self._executor.batch():
                submitted = [self._executor.submit(Restarting(job)) for job, _ in self._new]
        except (FailedJobError, FailedSubmissionError) as error:
            lines = [line.strip() for line in str(error).splitlines() if "rror" in line]
            if not self._open:  # nothing that ends will make room
                why = "; ".join(dict.fromkeys(lines)) or error
                raise ValueError(
                    f"place={self.cluster}: {why}; workers=100 submits fewer at a time"
                ) from None
            self._next_look = time.monotonic() + FULL_SECONDS
            return
        self._open += [(own, *new) for own, new in zip(submitted, self._new, strict=True)]
        self._new = []

    def _end(self, submitted: Any, job: Job, future: "Future[Outcome]") -> None:
        error = submitted.exception()
        if error is None:
            future.set_result(submitted.result())
        elif submitted.state.startswith("CANCELLED"):
            future.set_result(Outcome("interrupted", 0.0))
        elif submitted.state == "OUT_OF_MEMORY":
            future.set_result(Outcome("failed", 0.0, "out of memory; give it more (memory)"))
        else:
            why = (
                f"its job {submitted.job_id} ended as {submitted.state.lower()}; see {submitted.paths.stdout}"
            )
            future.set_exception(Lost(why))

    def cancel(self, *, force: bool) -> None:
        """Waiting jobs end at once, running ones after they have saved, or at once with `force`."""
        for _, future in self._new:
            future.set_result(Outcome("interrupted", 0.0))
        self._new = []
        jobs = [submitted.job_id for submitted, *_ in self._open]
        if self.cluster == "slurm" and jobs:
            for more in (["--state=PENDING"], [] if force else ["--signal=TERM"]):
                subprocess.run(["scancel", *more, *jobs], capture_output=True)
        elif self.cluster == "local":
            for number in jobs:
                os.kill(int(number), signal.SIGKILL if force else signal.SIGTERM)
        self._next_look = 0.0

    def close(self) -> None:
        """Do nothing: jobs that are left continue."""

    def __str__(self) -> str:
        what = "jobs of Slurm" if self.cluster == "slurm" else f"jobs of submitit's {self.cluster} executor"
        limit = f", {duration(self.limit)} at a time, then requeued" if self.cluster == "slurm" else ""
        return f"{what}, at most {pluralize(self.at_once, 'job')} at a time{limit}"


class Restarting:
    """The work of a job, as submitit calls it on a node; a job that is started again resumes from its checkpoint."""

    def __init__(self, job: Job):
        self.job = job

    def __call__(self) -> Outcome:
        return work(self.job)

    def checkpoint(self) -> Any:
        """What submitit puts back into the queue."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)
