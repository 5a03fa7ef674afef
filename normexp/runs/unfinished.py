"""Runs of a folder without a result, from what sweeps wrote of their cells."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from normexp.runs.table import find_runs


def read_ledgers(path: Path) -> list[dict[str, Any]]:
    """The `sweep.json` of each launch, oldest first."""
    return [json.loads(file.read_text()) for file in sorted(path.glob(".sweeps/*/sweep.json"))]


def open_runs(path: Path, finished: Collection[str]) -> list[dict[str, str]]:
    """Runs without a result: planned, failed or interrupted in a sweep, or single runs that are not finished.

    Args:
        finished: hashes of the runs that have one.
    """
    rows: dict[str, dict[str, str]] = {}
    for sweep in read_ledgers(path):
        for cell in sweep["cells"]:
            if cell["hash"] not in finished and cell["state"] != "skipped":
                why = {"why": cell["error"] or "", "log": cell["log"] or ""}
                rows[cell["run"]] = {"run": cell["run"], "state": cell["state"], **why}
    for folder in find_runs(path)[1]:
        run = folder.relative_to(path).as_posix()
        rows.setdefault(run, {"run": run, "state": "unfinished", "why": "", "log": ""})
    return [rows[name] for name in sorted(rows)]
