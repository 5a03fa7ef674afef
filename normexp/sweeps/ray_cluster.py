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
        address = options.address or os.environ.get("RAY_ADDRESS") or "auto"
        variables = {
            name: text for name, text in os.environ.items() if name.startswith(("NORMEXP_", "HYDRA_"))
        }
        # Workers import this checkout, and packages on this process's path.
        paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        around = {"env_vars": variables | {"PYTHONPATH": os.pathsep.join(paths)}}
        try:
            ray.init(
                address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=around
            )  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError) as error:
            why = one_line(ValueError(str(error)))[:160]
            raise ValueError(
                f"place=ray: no cluster at {address} ({why}); start one with `ray start`, or name another (address)"
            ) from None
        self._ray = ray
        wanted = {"CPU": threads, "GPU": options.gpus, "memory": options.memory}
        needs = {name: amount for name, amount in wanted.items() if amount}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(int(min(has.get(name, 0) / amount for name, amount in needs.items())) for has in nodes)
        if not room:  # a task that fits no node would wait without a message
            ray.shutdown()
            wants = ", ".join(f"{amount:g} {name}" for name, amount in needs.items())
            raise ValueError(f"place=ray: no node of the cluster at {address} has room for a run of {wants}")
        self.at_once = min(room, options.workers or room)
        # A worker ends after a task, as whatever a run left behind would reach the next one.
        self._task = ray.remote(max_calls=1, max_retries=0)(remote_work).options(
            num_cpus=threads, num_gpus=options.gpus or 0, memory=options.memory
        )
        self._open: dict[Future[Outcome], Any] = {}

    def submit(self, job: Job) -> "Future[Outcome]":
        result = self._task.remote(job, str(Path.cwd()))
        future = result.future()
        self._open[future] = result
        future.add_done_callback(self._open.pop)
        return future

    def cancel(self, *, force: bool) -> None:
        for result in list(self._open.values()):
            self._ray.cancel(result, force=force)

    def close(self) -> None:
        self.cancel(force=False)
        self._ray.shutdown()

    def __str__(self) -> str:
        return f"{pluralize(self.at_once, 'task')} of Ray at a time"


def remote_work(job: Job, folder: str) -> Outcome:
    """The work of a task. Relative paths start in the working directory of the launch."""
    os.chdir(folder)
    return work(job)
