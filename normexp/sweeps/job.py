"""What the process of a cell gets, and what it does."""

import dataclasses
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from normexp.config.folder import allowed_packages
from normexp.config.process import preserve_global_state, typed
from normexp.config.run_spec import RunSpec

LOGGERS = {"tensorboard", "csv"}  # others keep connections and threads


@dataclass
class TrainJob:
    """The work of one process.

    Args:
        specs: one run, or runs that train side by side.
        argv: the command line of these runs alone. Lightning runs it again for each device.
        threads: CPU threads, for runs that name none.
        pause_at: the part of its length after which the run ends as if interrupted.
    """

    specs: Sequence[RunSpec]
    argv: list[str]
    threads: int | None = None
    pause_at: float | None = None


def train_job(job: TrainJob) -> bool:
    """Train the runs of a job. Target of a process. Returns whether the process may train another job: its global state
    is as before, and nothing but this project's code ran in it."""
    from normexp.training.survive import PAUSE_AT  # loads torch
    from normexp.training.train import train

    sys.argv = job.argv
    os.environ[PAUSE_AT] = str(job.pause_at or "")
    with preserve_global_state():
        train([_with_threads(spec, job.threads) for spec in job.specs], typed(job.argv))
    gc.collect()  # network and data hold each other, and the next run needs their memory
    return all(_leaves_no_trace(spec) for spec in job.specs)


def _leaves_no_trace(spec: RunSpec) -> bool:
    config = spec.config
    logs = {config["logger"]} if isinstance(config["logger"], str) else set(config["logger"])
    own = allowed_packages() or spec.allowed
    return config["trainer"].get("devices") == 1 and not config["compile"] and not own and logs <= LOGGERS


def _with_threads(spec: RunSpec, threads: int | None) -> RunSpec:
    if threads is None or spec.config["threads"] is not None:
        return spec
    return dataclasses.replace(spec, config={**spec.config, "threads": threads})
