"""`summary.json`: what one run came to, written last and whole or not at all."""

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

SUMMARY = "summary.json"
STATUSES = ("completed", "diverged")


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` last and atomically: its presence means that the run is complete.

    Raises ValueError for an unknown status. Numbers that are not finite become null: JSON has no NaN, and the
    status says what they were.
    """
    if summary["status"] not in STATUSES:
        raise ValueError(f"status={summary['status']}: choose from {', '.join(STATUSES)}")
    text = json.dumps(_finite(summary), indent=2, allow_nan=False) + "\n"
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp", delete=False) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)  # temporary files are private by default
    os.replace(file.name, folder / SUMMARY)


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run; None where there is none."""
    path = Path(folder) / SUMMARY
    return json.loads(path.read_text()) if path.exists() else None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
