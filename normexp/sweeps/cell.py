"""One cell of many: a run, from its plan to its end, and the job of its process."""

import dataclasses
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.config.folder import allowed_packages
from normexp.config.identity import model_label
from normexp.config.process import preserve_global_state, typed
from normexp.config.settings import names_of
from normexp.runs import read_summary
from normexp.runs.summary import other_numerics
from normexp.sweeps.places.place import Used
from normexp.sweeps.places.this_machine import STOPS
from normexp.training.folder import in_use

if TYPE_CHECKING:  # it loads torch
    from normexp.config.run_spec import RunSpec

# States of a cell: planned, running, elsewhere (trained by another launch) and paused (halving), which pass; completed,
# diverged, failed, interrupted, skipped (it was finished before) and cut (halving).
WAITING = ("planned", "running", "elsewhere", "paused")
STOPPED = tuple(128 + number for number in STOPS)  # exit statuses
LOGGERS = {"tensorboard", "csv"}  # others keep connections and threads


class Elsewhere(Enum):
    """What other launches do, or have done, with a job."""

    NOTHING = 0
    TRAINING = 1
    FINISHED = 2


def elsewhere(folders: Sequence[Path]) -> Elsewhere:
    """The state of a job, from the folders of its runs. A damaged folder counts as free; the job will report it."""
    if any(in_use(folder) for folder in folders):
        return Elsewhere.TRAINING
    try:
        return Elsewhere.FINISHED if all(map(read_summary, folders)) else Elsewhere.NOTHING
    except ValueError:
        return Elsewhere.NOTHING


@dataclass(eq=False)
class Cell:
    """What one process trains, and what became of it.

    Attributes:
        name: how it differs from the others: "norm=batchnorm batch_size=2 seed=0".
        specs: its run.
        estimate: seconds; None where a GPU computes.
        memory: estimated bytes of its process; 0 where unknown.
        used: what its process used, where the place tells.
        tries: how often in a row it was lost without a new checkpoint.
        since: the time at which it was submitted or started.
        saved: the times of its checkpoints then.
    """

    name: str
    specs: "Sequence[RunSpec]"
    estimate: float | None = None
    state: str = "planned"
    seconds: float | None = None
    error: str | None = None
    log: Path | None = None
    tries: int = 0
    other_numerics: str = ""
    memory: int = 0
    used: Used | None = None
    since: float = 0.0
    saved: Sequence[float] = ()

    @property
    def folders(self) -> list[Path]:
        return [spec.folder for spec in self.specs]

    @property
    def folder(self) -> Path:
        return self.specs[0].folder

    @property
    def config(self) -> dict[str, Any]:
        return self.specs[0].config

    @property
    def run(self) -> str:
        """The run's name inside its study, as TensorBoard shows it."""
        return f"{self.specs[0].choices['model']}/{self.folder.name}"

    @property
    def label(self) -> str:
        """The same for the screen, with the network of a library or of a user, which a folder does not name."""
        return f"{model_label(self.config, self.specs[0].choices)}/{self.folder.name}"

    def finish(self, exit_code: int | None, seconds: float, *, stopped: bool) -> None:
        """Note how the cell's process ended. Its summaries have the result: no summary, no run."""
        status = "completed" if self.config["fast_dev_run"] else self.status()
        if status and exit_code == 0:
            self.state = status
        elif stopped or exit_code in STOPPED:
            self.state = "interrupted"
        else:
            self.state, self.error = "failed", _reason(exit_code, self.log)
        self.seconds = seconds

    def skip_if_finished(self) -> None:
        """Skip the cell if an earlier launch finished it, and note if another version computed it."""
        if self.status():
            self.state = "skipped"
            summaries = filter(None, map(read_summary, self.folders))
            self.other_numerics = next(filter(None, map(other_numerics, summaries)), "")

    def look(self) -> Elsewhere:
        """What other launches do, or have done, with this cell."""
        return Elsewhere.NOTHING if self.config["fast_dev_run"] else elsewhere(self.folders)

    def status(self) -> str | None:
        """The status in the summaries of a finished cell; None while one is missing."""
        summaries = [read_summary(folder) for folder in self.folders]
        statuses = [summary["status"] for summary in summaries if summary]
        if len(statuses) < len(self.folders):
            return None
        return "diverged" if "diverged" in statuses else "completed"


def cells_of(
    specs: "Sequence[RunSpec]", names: Sequence[str], estimates: Sequence[float | None]
) -> list[Cell]:
    """A cell for each run. A run that stands twice counts once."""
    cells: dict[Path, Cell] = {}
    for spec, name, estimate in zip(specs, names, estimates, strict=True):
        cells.setdefault(spec.folder, Cell(name, [spec], estimate))
    return list(cells.values())


def _reason(exit_code: int | None, log: Path | None) -> str:
    if log and not log.exists():
        return f"no message, and {log} is not there; if the study was moved during the sweep, move it back"
    lines = log.read_text(errors="replace").split("\n") if log else []
    last = next((line for line in reversed(lines) if line.strip()), "no message")
    if exit_code is None:
        return f"lost; the last line of its log: {last}"
    if exit_code < 0:
        return f"killed by signal {-exit_code}; the last line of its log: {last}"
    return last.removeprefix("Error: ")


@dataclass
class TrainJob:
    """The work of one process.

    Args:
        specs: one run.
        argv: the command line of this run alone. Lightning runs it again for each device.
        threads: CPU threads, for runs that name none.
        pause_at: the part of its length after which the run ends as if interrupted.
    """

    specs: "Sequence[RunSpec]"
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
        for spec in job.specs:
            train(_with_threads(spec, job.threads), typed(job.argv))
    gc.collect()  # network and data hold each other, and the next run needs their memory
    return all(_leaves_no_trace(spec) for spec in job.specs)


def _leaves_no_trace(spec: "RunSpec") -> bool:
    config, logs = spec.config, set(names_of(spec.config["logger"]))
    allowed = allowed_packages() or spec.allowed
    return config["trainer"].get("devices") == 1 and not config["compile"] and not allowed and logs <= LOGGERS


def _with_threads(spec: "RunSpec", threads: int | None) -> "RunSpec":
    if threads is None or spec.config["threads"] is not None:
        return spec
    return dataclasses.replace(spec, config={**spec.config, "threads": threads})
