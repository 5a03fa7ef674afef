"""One run of many, and what became of it."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from normexp.config.identity import model_label
from normexp.config.run_spec import RunSpec
from normexp.runs import read_summary

WAITING = ("planned", "running", "elsewhere")  # states that pass


@dataclass(eq=False)
class Cell:
    """A run and its state.

    Attributes:
        name: how it differs from the others: "norm=batchnorm batch_size=2 seed=0".
        state: planned, running, elsewhere (another process trains it), skipped (it was finished before), completed,
            diverged, failed or interrupted.
        error: why it failed, in one line.
        tries: how often in a row it was lost without a new checkpoint.
    """

    name: str
    spec: RunSpec
    log: Path
    state: str = "planned"
    seconds: float | None = None
    error: str | None = None
    tries: int = 0

    @property
    def folder(self) -> Path:
        return self.spec.folder

    @property
    def run(self) -> str:
        """The run's name inside its study, as TensorBoard shows it."""
        return f"{self.spec.choices['model']}/{self.folder.name}"

    @property
    def label(self) -> str:
        """The run's name on the screen, with the network of a library or of a user, which a folder does not name."""
        return f"{model_label(self.spec.config, self.spec.choices)}/{self.folder.name}"

    def summary_status(self) -> str | None:
        """The status in the run's summary; None if there is none, or a damaged one, as the run itself will say."""
        if self.spec.config["fast_dev_run"]:
            return None
        try:
            summary = read_summary(self.folder)
        except ValueError:
            return None
        return summary["status"] if summary else None

    def checkpoint_time(self) -> float:
        """When the run's last checkpoint was written; 0 without one."""
        with contextlib.suppress(OSError):
            return (self.folder / "checkpoints" / "last.ckpt").stat().st_mtime
        return 0.0
