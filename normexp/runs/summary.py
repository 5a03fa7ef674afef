"""The summary of a run, `summary.json`, written last, and whole or not at all. A summary may come from a stranger, and
tables, reports and screens show it, so it is checked once, when it is read.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from normexp import NUMERICS
from normexp.config.errors import checked
from normexp.format import LARGEST, require_plain
from normexp.runs.files import write_json

SUMMARY = "summary.json"
ECHOES = {"data.batch_size": "batch_size", "data.seed": "seed", "optimizer.lr": "lr"}  # one value twice
MOST_LOSS = 10.0  # times the loss of guessing
# Of the loss of guessing: with a higher final training loss, a run has learned almost nothing. Chosen on the runs
# behind docs/models.md. Their chance loss is 2.3 nats, and good runs rise by at most 0.16 of it.
NEAR_CHANCE = 0.8

Count = Annotated[int, Field(ge=0, le=LARGEST)]
Numbers = dict[str, float | None]
Strict = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class Choices(BaseModel):
    """The names that were chosen in each group of the configuration."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, str | None]
    model: str
    norm: str
    data: str


class Optimizer(BaseModel):
    """The optimizer's options; `lr` is the rate of the configuration, unless it was set on its own."""

    model_config = Strict
    lr: float | None = None


class Configuration(BaseModel):
    """The resolved configuration, as far as tables and messages count on it."""

    model_config = Strict
    seed: Count
    batch_size: Annotated[int, Field(ge=1, le=LARGEST)]
    lr: float
    max_epochs: Count
    max_steps: Count | None
    accuracies: list[float]
    name: str
    outputs: str
    threads: Count | None = None
    recipe: str | None = None
    model: dict[str, Any] = {}
    norm: dict[str, Any] = {}
    data: dict[str, Any] = {}
    optimizer: Optimizer = Optimizer()
    schedule: dict[str, Any] = {}
    trainer: dict[str, Any] = {}


class Summary(BaseModel):
    """What a finished run says of itself: what it is (`choices`, `config`, `hash`), and what came out. `metrics` are
    those of the final weights; null is a number that was not finite."""

    model_config = Strict
    status: Literal["completed", "diverged"]
    hash: str
    fingerprint: str
    command: str
    finished: str
    steps: Count
    parameters: Count
    epochs: float
    seconds: float
    choices: Choices
    config: Configuration
    metrics: Numbers
    convergence: Numbers
    execution: dict[str, str | float | bool | None]
    versions: dict[str, str | None]
    numerics: Count = 1
    samples: Count | None = None
    chance_loss: float | None = None
    not_finite: list[str] = []
    recipe_changes: list[str] | None = None

    @model_validator(mode="after")
    def _metrics_fit(self) -> "Summary":
        for name in ("val/accuracy", "test/accuracy"):
            if name not in self.metrics:
                raise ValueError(f"metrics: lacks {name}")
        for name, value in self.metrics.items():
            if value is None and self.status == "completed" and name not in self.not_finite:
                raise ValueError(f"metrics.{name}=null: must be a number in a run that completed")
            if name.endswith("/accuracy") and value is not None and not 0 <= value <= 1:
                raise ValueError(f"metrics.{name}={value:g}: must be a fraction, from 0 to 1")
        return self


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` last and atomically: its presence means that the run is complete. Numbers that are not
    finite become null, because JSON has no NaN; the status tells of them."""
    write_json(folder / SUMMARY, json.loads(json.dumps(summary), parse_constant=lambda name: None))


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run; None if there is none.

    Raises ValueError with one line for a file that cannot be read, was cut, or is no summary of a run.
    """
    path = Path(folder) / SUMMARY
    if not path.is_file():
        return None
    try:
        summary = json.loads(path.read_bytes())
    except FileNotFoundError:  # deleted meanwhile
        return None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); {remedy(path.parent)}") from None
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"no valid JSON: {error}") from None
    try:
        if not isinstance(summary, dict) or not summary:
            raise ValueError("holds no summary of a run")
        require_plain("", summary)
        checked(Summary, summary)
    except ValueError as error:
        raise damaged(path, str(error)) from None
    return summary


def finished_summary(folder: Path) -> dict[str, Any]:
    """The summary of a finished run. Raises ValueError if the run is not finished."""
    summary = read_summary(folder)
    if summary is None:
        raise ValueError(f"{folder}: holds no finished run; run it again")
    return summary


def failed(summary: Mapping[str, Any]) -> bool:
    """Whether a run failed: it diverged, or its final training loss is above ten times that of guessing. Such a run has
    no place in a mean over runs that learned; it is counted."""
    chance, loss = summary.get("chance_loss"), summary["metrics"].get("train/loss")
    blown_up = chance is not None and loss is not None and loss > MOST_LOSS * chance
    return summary["status"] == "diverged" or blown_up


def other_numerics(summary: Mapping[str, Any]) -> str:
    """`numerics=1, not 2` for a run of a version that computes other bits; empty if it is not, or does not say."""
    found = summary.get("numerics", NUMERICS)
    return "" if found == NUMERICS else f"numerics={found}, not {NUMERICS}"


def learning_rate(config: Mapping[str, Any]) -> float:
    """The rate that the optimizer is given: `lr`, unless `optimizer.lr` was set on its own."""
    own = config.get("optimizer", {}).get("lr")
    rate: Any = config.get("lr") if own is None else own
    return rate


def flat(config: Mapping[str, Any], prefix: str = "", *, targets: bool = False) -> dict[str, Any]:
    """Nested keys joined by dots, lists as JSON. Of Hydra's own keys only `_target_` is kept, where asked for."""
    row: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{prefix}{key}.", targets=targets)
        elif not key.startswith("_") or (targets and key == "_target_"):
            row[f"{prefix}{key}"] = json.dumps(value) if isinstance(value, (list, tuple)) else value
    return row


class Damaged(ValueError):
    """A file in a run's folder is not as the run wrote it, so the same command cannot go on there."""


def damaged(path: Path, why: str, folder: Path | None = None) -> Damaged:
    """The error for such a file; `folder` is the run's, by default the file's."""
    return Damaged(f"{path}: damaged ({why}); {remedy(folder or path.parent)}")


def remedy(folder: Path) -> str:
    """The advice for a folder with damaged files."""
    return f"remove the folder {folder} and run it again"
