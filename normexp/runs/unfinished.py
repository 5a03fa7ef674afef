"""Runs of a folder without a result, from what sweeps wrote of their cells."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from normexp.runs.table import find_runs

# The state of a sweep's cell without a summary, after its last launch.
STATES = {
    "planned": "not started",
    "running": "running, or killed",
    "elsewhere": "left to another launch",
    "completed": "removed since",
    "diverged": "removed since",
}


def read_ledgers(path: Path) -> list[dict[str, Any]]:
    """The `sweep.json` of each launch, oldest first."""
    ledgers = []
    for file in sorted(path.glob(".sweeps/*/sweep.json")):
        try:
            ledgers.append(json.loads(file.read_text()))
        except ValueError as error:
            raise ValueError(
                f"{file}: no valid JSON ({error}); remove {file.parent}, it holds no runs"
            ) from None
    return ledgers


def open_runs(path: Path, finished: Collection[str]) -> list[dict[str, str]]:
    """Runs without a result: planned, failed or interrupted in a sweep, or single runs that are not finished.

    Args:
        finished: hashes of the runs that have one.
    """
    rows: dict[str, dict[str, str]] = {}
    for sweep in read_ledgers(path):
        for cell in sweep["cells"]:
            if cell["hash"] not in finished and cell["state"] != "skipped":
                state = STATES.get(cell["state"], cell["state"])
                why = {"why": cell["error"] or "", "log": cell["log"] or ""}
                rows[cell["run"]] = {"run": cell["run"], "state": state, **why}
    for folder in find_runs(path)[1]:
        run = folder.relative_to(path).as_posix()
        rows.setdefault(run, {"run": run, "state": "unfinished", "why": "", "log": ""})
    return [rows[name] for name in sorted(rows)]
