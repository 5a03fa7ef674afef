"""Jobs on a node of a cluster: children of the one process that the cluster started there."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normexp.sweeps.places.place import Ended, Job
from normexp.sweeps.places.this_machine import ThisMachine

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
        environment: environment variables of all jobs.
    """

    target: Callable[[Any], Any]
    jobs: Sequence[Job]
    threads: int
    folder: Path
    environment: Mapping[str, str]


def run_share(share: Share, stopped: Callable[[], bool]) -> dict[str, int | None]:
    """Run the jobs. Returns the exit code of each by its key.

    Args:
        stopped: whether the jobs must save and end. It is called a few times per second.
    """
    os.chdir(share.folder)
    # Pass it explicitly, because the server that forks the jobs keeps the environment of its start.
    environment = {**{name: os.environ[name] for name in DEVICES if name in os.environ}, **share.environment}
    place = ThisMachine(share.target, [environment] * len(share.jobs), share.threads)
    place.submit(share.jobs)
    codes: dict[str, int | None] = {}
    asked = False
    try:
        while len(codes) < len(share.jobs):
            if stopped() and not asked:
                asked = True
                place.stop(force=False)
            for event in place.poll(POLL_SECONDS):
                if isinstance(event, Ended):
                    codes[event.job.key] = event.exit_code
    finally:
        place.close()
        place.wait()
    return codes


def run_task(share: Share) -> dict[str, int | None]:
    """The task of a Ray worker: run the jobs. Ray cancels with a KeyboardInterrupt, which ends them cleanly."""
    return run_share(share, lambda: False)
