"""The plan and the progress of a launch on disk, for reports and for people who look while it runs.

`sweep.json` has one row per cell, as planned and again at the end. In between, each event is one line of
`progress.jsonl`, so it costs the same in a sweep of ten cells and of ten thousand.
"""

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from normexp.runs.files import write_json
from normexp.sweeps.cell import Cell

PLAN, PROGRESS = "sweep.json", "progress.jsonl"


class Ledger:
    """The ledger of one launch, in its own folder."""

    def __init__(self, folder: Path, command: str):
        self.folder, self.command = folder, command
        self._index: dict[int, int] = {}  # number of each cell

    def open(self, cells: list[Cell]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(cells)
        self._file = (self.folder / PROGRESS).open("a", encoding="utf-8")

    def note(self, cell: Cell) -> None:
        """Note a cell's new state. Cells are numbered in the order in which they came."""
        place = self._index.setdefault(id(cell), len(self._index))
        self._file.write(json.dumps({"index": place, **_row(cell)}) + "\n")
        self._file.flush()

    def close(self, cells: list[Cell]) -> None:
        self._file.close()
        self._write(cells)
        with contextlib.suppress(OSError):
            (self.folder / PROGRESS).unlink()

    def _write(self, cells: list[Cell]) -> None:
        self._index = {id(cell): place for place, cell in enumerate(cells)}
        launch = {"command": self.command, "host": socket.gethostname(), "pid": os.getpid()}
        rows = [_row(cell) for cell in cells]
        write_json(self.folder / PLAN, {**launch, "cells": rows}, indent=1, on_disk=False)


def _row(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.name, "run": cell.run, "folder": str(cell.folder), "hash": cell.digest, "state": cell.state,
        "seconds": cell.seconds, "error": cell.error, "log": str(cell.log) if cell.log else None,
    }  # fmt: skip
