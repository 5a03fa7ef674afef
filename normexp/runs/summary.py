"""The summary of a run, `summary.json`, written last, and whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normexp.runs.files import finite_json, write_json

SUMMARY = "summary.json"
# Behind the name of a metric: with running statistics that are estimated anew in eval mode.
REESTIMATED = "reestimated"
MOST_LOSS = 10.0  # times the loss of guessing
# With a final training loss above this share of that of guessing, a run has learned almost nothing. Chosen on the runs
# behind docs/models.md. Their chance loss is 2.3 nats, and good runs rise by at most 0.16 of it.
NEAR_CHANCE = 0.8
OF_NUMBERS = ("metrics", "convergence")
GROUPS = ("choices", "config", *OF_NUMBERS, "execution", "versions")
NEEDED = {"status", "hash", *GROUPS}


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` last and atomically: its presence means that the run is complete. Numbers that are not
    finite become null, because JSON has no NaN; the status says that the run diverged."""
    write_json(folder / SUMMARY, finite_json(summary))


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run; None if there is none. Raises ValueError with one line for a file that was cut or
    is no summary of a run."""
    path = Path(folder) / SUMMARY
    try:
        summary = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"no valid JSON: {error}") from None
    if why := _damage(summary):
        raise damaged(path, why)
    return summary


def _damage(summary: Any) -> str:
    """Why this is no summary of a run; empty if it is one."""
    if not isinstance(summary, dict):
        return "no summary"
    if lacking := NEEDED - summary.keys():
        return f"lacks {', '.join(sorted(lacking))}"
    if plain := [name for name in GROUPS if not isinstance(summary[name], dict)]:
        return f"{plain[0]} has no keys"
    results = [item for name in OF_NUMBERS for item in summary[name].items()]
    others = [name for name, value in results if not isinstance(value, int | float | None)]
    return f"{others[0]} is no number" if others else ""


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


def learning_rate(config: Mapping[str, Any]) -> float:
    """The rate that the optimizer is given: `lr`, unless `optimizer.lr` was set on its own."""
    optimizer_rate = config.get("optimizer", {}).get("lr")
    rate: Any = config.get("lr") if optimizer_rate is None else optimizer_rate
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
    """The error for a damaged file; `folder` is the run's, by default the file's."""
    return Damaged(f"{path}: damaged ({why}); {remedy(folder or path.parent)}")


def remedy(folder: Path) -> str:
    """The advice for a folder with damaged files."""
    return f"remove the folder {folder} and run it again"
