"""Check the content of `summary.json`. It may come from a stranger, and tables, reports and screens show it."""

import math
from typing import Any

from normexp.config.settings import GROUPS, ROOT
from normexp.config.types import UNPRINTABLE, describe, fits_type

STATUSES = ("completed", "diverged")
LONGEST, LARGEST, DEEPEST = 100_000, 2**63, 20  # characters, whole numbers, nested values
KINDS: dict[str, Any] = {
    "hash": str, "fingerprint": str, "command": str, "finished": str, "steps": int, "parameters": int,
    "epochs": float, "seconds": float, "choices": dict, "config": dict, "metrics": dict, "convergence": dict,
    "execution": dict, "versions": dict,
}  # fmt: skip
# Runs of earlier versions lack these.
LATER: dict[str, Any] = {
    "recipe_changes": list[str] | None, "chance_loss": float | None, "sources": dict, "checkout": dict,
}  # fmt: skip
# The types of values in these mappings. Choices are names of files. Numbers may be unknown.
VALUES: dict[str, Any] = {
    "choices": str | None, "metrics": float | None, "convergence": float | None, "versions": str | None,
    "execution": str | float | bool | None, "sources": str,
}  # fmt: skip
# Every version's runs have these choices and settings.
INSIDE = {
    "choices": ("model", "norm", "data"),
    "metrics": ("val/accuracy", "test/accuracy"),
    "config": ("seed", "batch_size", "lr", "max_epochs", "max_steps", "accuracies", "name", "outputs"),
}


def check_summary(summary: dict[str, Any]) -> None:
    """Raise ValueError that names the first key with a value that no run writes."""
    for key, value in summary.items():
        _check_plain(key, value)
    if summary["status"] not in STATUSES:
        raise ValueError(f"status={summary['status']}: must be {' or '.join(STATUSES)}")
    for key, kind in (KINDS | LATER).items():
        if key in summary:
            _check(key, summary[key], kind)
    for group, kind in VALUES.items():
        for key, value in summary.get(group, {}).items():
            _check(f"{group}.{key}", value, kind)
    for group, names in INSIDE.items():
        if lacking := [name for name in names if summary[group].get(name, summary) is summary]:
            raise ValueError(f"{group}: lacks {', '.join(lacking)}")
    for name, value in summary["metrics"].items():
        if value is None and summary["status"] == "completed":
            raise ValueError(f"metrics.{name}=null: must be a number in a run that completed")
        if name.endswith("/accuracy") and value is not None and not 0 <= value <= 1:
            raise ValueError(f"metrics.{name}={value:g}: must be a fraction, from 0 to 1")
    config = summary["config"]
    for setting in ROOT:
        if setting.key in config:
            _check(f"config.{setting.key}", config[setting.key], setting.kind)
    for group in GROUPS:
        if group in config:
            _check(f"config.{group}", config[group], dict)


def _check(key: str, value: Any, kind: Any) -> None:
    if not fits_type(value, kind):
        raise ValueError(f"{key}={str(value)[:60]}: {describe(kind)}")


def _check_plain(path: str, value: Any, depth: int = 0) -> None:
    """Allow numbers that fit into a table, text that fits on one line of a screen, and lists and mappings of these."""
    if depth > DEEPEST:
        raise ValueError(f"{path[:60]}: nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_plain(path, key)
            _check_plain(f"{path}.{key}", item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_plain(path, item, depth + 1)
    elif isinstance(value, str):
        if len(value) > LONGEST or UNPRINTABLE.search(value):
            raise ValueError(
                f"{path!r:.60}: text of {len(value)} characters, not all of which can be shown on a line"
            )
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{path}: a number of {len(str(value))} digits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{path}={value}: must be finite or null")
