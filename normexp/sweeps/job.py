"""What the process of a cell gets, and what it does."""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from normexp.config.process import typed
from normexp.config.run_spec import RunSpec


@dataclass
class TrainJob:
    """The work of one process.

    Args:
        specs: one run, or runs that train side by side.
        argv: the command line of these runs alone. Lightning runs it again for each device.
        threads: CPU threads, for runs that name none.
    """

    specs: Sequence[RunSpec]
    argv: list[str]
    threads: int | None = None


def train_job(job: TrainJob) -> None:
    """Train the runs of a job. Target of a process."""
    from normexp.training.train import train  # loads torch

    sys.argv = job.argv
    train([_with_threads(spec, job.threads) for spec in job.specs], typed(job.argv))


def _with_threads(spec: RunSpec, threads: int | None) -> RunSpec:
    if threads is None or spec.config["threads"] is not None:
        return spec
    return dataclasses.replace(spec, config={**spec.config, "threads": threads})
