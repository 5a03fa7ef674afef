"""Tasks of a running Ray cluster, a run each."""

import logging
import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from normexp.config.errors import one_line
from normexp.format import pluralize
from normexp.sweeps.job import Job, Outcome, work
from normexp.sweeps.options import Options
from normexp.sweeps.place import Place


class RayCluster(Place):
    """Uses a running cluster. When this process dies, Ray ends its tasks."""

    def __init__(self, options: Options, threads: int):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ValueError('place=ray: needs ray; pip install "normexp[ray]"') from None
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
        self._task = ray.remote(max_calls=1, max_retries=0)(remote_work).options(
            num_cpus=threads, num_gpus=options.gpus or 0
        )
        self._open: dict[Future[Outcome], Any] = {}

    def submit(self, job: Job) -> "Future[Outcome]":
        result = self._task.remote(job, str(Path.cwd()))
        future = result.future()
        self._open[future] = result
        future.add_done_callback(self._open.pop)
        return future

    def cancel(self) -> None:
        for result in list(self._open.values()):
            self._ray.cancel(result)

    def close(self) -> None:
        self.cancel()
        self._ray.shutdown()

    def __str__(self) -> str:
        return f"{pluralize(self.at_once, 'task')} of Ray at a time"


def remote_work(job: Job, folder: str) -> Outcome:
    """The work of a task. Relative paths start in the working directory of the launch."""
    os.chdir(folder)
    return work(job)
