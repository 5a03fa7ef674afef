"""The rows of many runs on disk, column by column, beside them: a run is read once, and again when its files changed.

The file `.columns.json.gz` of a folder with many runs has, for each of them, the size, times and number of each of its
files, and the row that it gave. A copy of a folder has other ones, so a stranger's file is of no use here.
"""

import contextlib
import gzip
import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.fork_map import fork_map
from normexp.machine import cores
from normexp.runs.files import atomic_write
from normexp.runs.summary import BESIDE, SUMMARY

MANY = 1000  # runs; fewer are read in three seconds, and leave no file
PART = 200  # runs that a process reads at a time
STORED = ".columns.json.gz"
LOOKED_AT = (SUMMARY, *BESIDE, os.path.join(".hydra", "identity"))

Row = dict[str, Any]


def stored_table(root: Path, folders: Sequence[Path], row_of: Callable[[Path], Row | None]) -> pd.DataFrame:
    """The table of runs, a row of plain values for each folder in this order, as pandas makes it of a list of rows.
    Rows come from the file of an earlier reading if nothing of the run has changed, otherwise from `row_of`; None is a
    run that is gone. Its errors are its own."""
    stamps, old = _read(root / STORED)
    places = {name: place for place, name in enumerate(stamps)}
    now = {folder.relative_to(root).as_posix(): (_stamp(folder), folder) for folder in folders}
    read = _read_rows([folder for name, (stamp, folder) in now.items() if stamps.get(name) != stamp], row_of)
    # name -> stamp, place among the kept rows or a new row
    stamped: dict[str, tuple[list[int], int | Row]] = {}
    for name, (stamp, _) in now.items():
        row = places[name] if stamps.get(name) == stamp else next(read)
        if row is not None:
            stamped[name] = stamp, row
    rows = [row for _, row in stamped.values()]
    new = [row for row in rows if isinstance(row, dict)]
    columns = {
        name: [
            row.get(name, math.nan) if isinstance(row, dict) else old[name][row] if name in old else math.nan
            for row in rows
        ]
        for name in dict.fromkeys([*old, *(name for row in new for name in row)])
    }
    columns = {name: column for name, column in columns.items() if any(value == value for value in column)}
    if new:
        kept = {name: stamp for name, (stamp, _) in stamped.items()}
        stored = {"code": _code(), "stamps": kept, "columns": columns}
        with contextlib.suppress(OSError), atomic_write(root / STORED, on_disk=False) as file:
            file.write(gzip.compress(json.dumps(stored).encode(), 1))  # unless the folder is only read
    return pd.DataFrame(columns)


def _read_rows(folders: Sequence[Path], row_of: Callable[[Path], Row | None]) -> Iterator[Row | None]:
    """The row of each folder, read by as many processes as there are cores. Raises what the first to fail raised."""

    def rows_of(part: Sequence[Path]) -> list[Row | None] | Exception:
        try:
            return [row_of(folder) for folder in part]
        except Exception as error:  # raised where the rows are wanted
            return error

    parts = [folders[start : start + PART] for start in range(0, len(folders), PART)]
    for rows in fork_map(rows_of, parts, cores()):
        if isinstance(rows, Exception):
            raise rows
        if isinstance(rows, str):
            raise ValueError(f"reading runs: {rows}")
        yield from rows


def _read(path: Path) -> tuple[dict[str, list[int]], dict[str, list[Any]]]:
    """(name -> stamp, columns) of an earlier reading; nothing of a file that is damaged or by other code."""
    with contextlib.suppress(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        stored = json.loads(gzip.decompress(path.read_bytes()))
        if stored["code"] == _code():
            return {**stored["stamps"]}, {**stored["columns"]}
    return {}, {}


def _stamp(folder: Path) -> list[int]:
    """What changes when a file of the run is written, replaced, copied or removed."""
    numbers: list[int] = []
    for name in LOOKED_AT:
        try:
            status = os.stat(os.path.join(folder, name))
            numbers += [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        except OSError:
            numbers += [0, 0, 0, 0]
    return numbers


@cache
def _code() -> str:
    """A digest of the code that makes rows."""
    here = Path(__file__).parent
    config = (here.parent / "config" / f"{name}.py" for name in ("identity", "settings"))
    files = [*sorted(here.glob("*.py")), *config]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
