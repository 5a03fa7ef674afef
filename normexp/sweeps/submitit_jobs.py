"""Jobs of submitit: of a Slurm cluster, or on this machine to try them. A job trains one run; before its time is over,
the run saves, and submitit puts its job back into the queue."""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from normexp.format import duration
from normexp.machine import cores
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options
from normexp.sweeps.place import Lost, Place

MOST = {
    "slurm": 1000,
    "local": cores(),
    "debug": 1,
}  # jobs at a time; Slurm's default limit of an array is 1001
DEFAULT_LIMIT = 3600.0  # seconds
LOOK_SECONDS = 2.0
RESTARTS = 10**6  # after time limits; submitit asks for a number


class SubmititJobs(Place):
    """Jobs go on if this process dies. A later launch then waits for those that run.

    Args:
        folder: of submitit's files, which the nodes must see.
    """

    def __init__(self, options: Options, folder: Path, threads: int):
        self.cluster = options.place
        try:
            import submitit
        except ImportError:
            raise ValueError(f'place={self.cluster}: needs submitit; pip install "normexp[slurm]"') from None
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError("place=slurm: no sbatch on the path; start this where jobs are submitted")
        if options.gpus and options.gpus % 1:
            raise ValueError(f"gpus={options.gpus}: a job of Slurm has whole GPUs; write gpus=1")
        self.at_once = options.workers or MOST[self.cluster]
        self.limit = options.time_limit or DEFAULT_LIMIT
        self._executor = submitit.AutoExecutor(folder, cluster=self.cluster, slurm_max_num_timeout=RESTARTS)
        try:
            self._executor.update_parameters(
                name="normexp",
                timeout_min=max(1, math.ceil(self.limit / 60)),
                cpus_per_task=threads,
                gpus_per_node=int(options.gpus) if options.gpus else None,
                mem_gb=options.memory / 1e9 if options.memory else None,
                stderr_to_stdout=True,
                slurm_array_parallelism=self.at_once,
                slurm_signal_delay_s=min(90, int(self.limit / 6)),
                **{f"slurm_{name}": value for name, value in options.slurm.items()},
            )
        except (NameError, ValueError) as error:
            raise ValueError(f"slurm: {str(error).splitlines()[0]}") from None
        self._new: list[tuple[Job, Future[Outcome]]] = []
        self._open: list[tuple[Any, Future[Outcome]]] = []
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
        still_open = []
        for submitted, future in self._open:
            if submitted.done():
                self._end(submitted, future)
            else:
                still_open.append((submitted, future))
        self._open = still_open

    def _end(self, submitted: Any, future: "Future[Outcome]") -> None:
        error, state = submitted.exception(), submitted.state
        if error is None:
            future.set_result(outcome := submitted.result())
            if self.cluster == "debug" and outcome.status == "interrupted":
                signal.raise_signal(signal.SIGINT)  # which the run has answered, and now the launch
        elif state.startswith("CANCELLED"):
            future.set_result(Outcome("interrupted", 0.0))
        else:
            why = str(error).splitlines()[-1] if state == "FINISHED" else state.lower()
            future.set_exception(Lost(f"its job {submitted.job_id} ended ({why}); {submitted.paths.stdout}"))

    def _send(self) -> None:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        as_call = partial(partial, work) if self.cluster == "debug" else Restarting
        try:
            with self._executor.batch():
                submitted = [self._executor.submit(as_call(job)) for job, _ in self._new]
        except (FailedJobError, FailedSubmissionError) as error:
            lines = [line.strip() for line in str(error).splitlines() if "rror" in line]
            why = "; ".join(dict.fromkeys(lines)) or error
            raise ValueError(f"place={self.cluster}: {why}; workers=100 submits fewer at a time") from None
        self._open += [(own, future) for own, (_, future) in zip(submitted, self._new, strict=True)]
        self._new = []

    def cancel(self, *, force: bool) -> None:
        """Waiting jobs end at once, running ones after they have saved, or at once with `force`."""
        for _, future in self._new:
            future.set_result(Outcome("interrupted", 0.0))
        self._new = []
        jobs = [submitted.job_id for submitted, _ in self._open]
        if self.cluster == "local":
            for job in jobs:
                os.kill(int(job), signal.SIGKILL if force else signal.SIGTERM)
        elif self.cluster == "slurm" and jobs:
            for more in (["--state=PENDING"], [] if force else ["--signal=TERM"]):
                subprocess.run(["scancel", *more, *jobs], capture_output=True)

    def __str__(self) -> str:
        if self.cluster != "slurm":
            return f"{self.at_once} at a time by submitit's {self.cluster} executor"
        return f"jobs of Slurm, at most {self.at_once}, {duration(self.limit)} at a time, then requeued"


class Restarting:
    """The work of a job, as submitit calls it on a node; a job that is started again resumes from its checkpoint."""

    def __init__(self, job: Job):
        self.job = job

    def __call__(self) -> Outcome:
        # A cancel while the run has no handler of its own yet; submitit would pass it over.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        return work(self.job)

    def checkpoint(self) -> Any:
        """What submitit puts back into the queue."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)
