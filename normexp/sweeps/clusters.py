"""Runs on a cluster: jobs of submitit (of Slurm, or on this machine to try them), or tasks of a running Ray cluster."""

import logging
import math
import os
import re
import signal
import sys
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any

from normexp.config.errors import one_line
from normexp.config.options import suggest
from normexp.format import duration, installs, pluralize
from normexp.machine import cores
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options
from normexp.sweeps.places import Place

MOST = 1000  # jobs at a time on a cluster
RESTARTS = 10**6  # after time limits; submitit asks for a number


class SubmititJobs(Place):
    """Jobs of submitit, a run each. Before its time is over, a run saves, and its job goes back into the queue. Jobs
    go on if this process dies. A later launch then waits for those that run. Nodes must see submitit's `folder`."""

    def __init__(self, options: Options, folder: Path, threads: int):
        self.cluster = options.place
        try:
            import submitit
        except ImportError:
            raise ValueError(f"place={self.cluster}: needs submitit; {installs('slurm')}") from None
        self.at_once = options.workers or (cores() if self.cluster == "local" else MOST)
        self.limit = (options.time_limit or timedelta(hours=1)).total_seconds()
        every = {
            "name": "normexp", "timeout_min": max(1, math.ceil(self.limit / 60)), "cpus_per_task": threads,
            "gpus_per_node": math.ceil(options.gpus) if options.gpus else None, "stderr_to_stdout": True,
        }  # fmt: skip
        of_slurm = {"signal_delay_s": min(90, int(self.limit / 6)), **options.slurm}
        try:
            if options.plan and self.cluster == "slurm":
                self._executor = _draft(folder)
                known = {name: value for name, value in every.items() if value is not None}
                self._executor.update_parameters(**self._executor._convert_parameters(known), **of_slurm)
            else:
                self._executor = submitit.AutoExecutor(
                    folder, cluster=self.cluster, slurm_max_num_timeout=RESTARTS
                )
                self._executor.update_parameters(
                    **every, **{f"slurm_{name}": value for name, value in of_slurm.items()}
                )
        except (NameError, ValueError, RuntimeError) as error:
            names = re.findall(r"- (?:slurm_)?(\w+) \(", str(error))
            if wrong := [name for name in options.slurm if names and name not in names]:
                raise ValueError(f"slurm={wrong[0]}: no such option; {suggest(wrong[0], names)}") from None
            raise ValueError(f"place={self.cluster}: {str(error).splitlines()[0]}") from None
        self._open: dict[Future[Outcome], Any] = {}

    def submit(self, job: Job) -> "Future[Outcome]":
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        future: Future[Outcome] = Future()
        try:
            self._open[future] = self._executor.submit(Restarting(job))
        except (FailedJobError, FailedSubmissionError) as error:
            why = " ".join(str(error).split())
            raise ValueError(f"place={self.cluster}: {why}; workers=100 submits fewer at a time") from None
        return future

    def draft(self) -> list[str]:
        """The file that sbatch would get for each run."""
        if self.cluster == "local":
            return []
        text = self._executor._make_submission_file_text(self._executor._submitit_command_str, "draft")
        return ["sbatch    gets for each run:", *(f"  {line}" for line in text.splitlines() if line)]

    def look(self) -> None:
        """End the futures of jobs that have ended."""
        for future, submitted in list(self._open.items()):
            if not submitted.done():
                continue
            del self._open[future]
            error, state = submitted.exception(), submitted.state
            if error is None:
                future.set_result(submitted.result())
            elif state.startswith("CANCELLED"):
                future.set_result(Outcome("interrupted", 0.0))
            else:
                why = str(error).splitlines()[-1] if state == "FINISHED" else state.lower()
                what = f"its job {submitted.job_id} ended ({why}); {submitted.paths.stdout}"
                future.set_exception(RuntimeError(what))

    def cancel(self) -> None:
        for submitted in self._open.values():
            if self.cluster == "slurm":
                submitted.cancel(check=False)
            else:
                os.kill(int(submitted.job_id), signal.SIGTERM)

    def __str__(self) -> str:
        if self.cluster == "local":
            return f"{self.at_once} at a time by submitit"
        return f"jobs of Slurm, at most {self.at_once}, {duration(self.limit)} at a time, then requeued"


def _draft(folder: Path) -> Any:
    """An executor of Slurm's that submits nothing, so it needs no Slurm here."""
    from submitit import SlurmExecutor

    class Draft(SlurmExecutor):
        @classmethod
        def affinity(cls) -> int:
            return 1

    return Draft(folder, max_num_timeout=RESTARTS)


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


class RayCluster(Place):
    """Tasks of a running Ray cluster, a run each. When this process dies, Ray ends its tasks."""

    def __init__(self, options: Options, threads: int):
        self._open: dict[Future[Outcome], Any] = {}
        self.asked = {"num_cpus": threads, "num_gpus": options.gpus or 0}
        self.counted = bool(options.workers) or not options.plan
        if options.plan:  # which asks no cluster how large it is
            self.at_once = options.workers or 1
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ValueError(f"place=ray: needs ray; {installs('ray')}") from None
        address = os.environ.get("RAY_ADDRESS", "auto")
        passed = {name: text for name, text in os.environ.items() if name.startswith(("NORMEXP_", "HYDRA_"))}
        # Workers import this checkout, and packages on this process's path.
        paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        around = {"env_vars": passed | {"PYTHONPATH": os.pathsep.join(paths)}}
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=around)
        except (ConnectionError, ValueError, RuntimeError) as error:
            why = one_line(ValueError(str(error)))[:160]
            raise ValueError(f"place=ray: no cluster at {address} ({why}); set RAY_ADDRESS") from None
        self._ray = ray
        self.at_once = options.workers or max(1, int(ray.cluster_resources().get("CPU", 0)) // threads)
        # A worker ends after a task, as whatever a run left behind would reach the next one.
        self._task = ray.remote(max_calls=1, max_retries=0)(remote_work).options(**self.asked)

    def submit(self, job: Job) -> "Future[Outcome]":
        result = self._task.remote(job, str(Path.cwd()))
        future = result.future()
        self._open[future] = result
        future.add_done_callback(self._open.pop)
        return future

    def cancel(self) -> None:
        for result in list(self._open.values()):
            self._ray.cancel(result)

    def draft(self) -> list[str]:
        """What the cluster would get for each run."""
        needs = ", ".join(f"{name}={number:g}" for name, number in self.asked.items())
        return [
            f"ray       gets a task for each run: {needs}; as many at a time as it has room for, or --workers"
        ]

    def close(self) -> None:
        self.cancel()
        self._ray.shutdown()

    def __str__(self) -> str:
        return f"{pluralize(self.at_once, 'task')} of Ray at a time" if self.counted else "tasks of Ray"


def remote_work(job: Job, folder: str) -> Outcome:
    """The work of a task. Relative paths start in the working directory of the launch."""
    os.chdir(folder)
    return work(job)
