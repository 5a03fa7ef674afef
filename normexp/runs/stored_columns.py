"""The rows of many runs on disk, column by column, beside them: a run is read once, and again when its files changed.

The file `.columns.npz` of a folder with many runs has, for each of them, the size, times and number of each of its
files, and the row that it gave. A copy of a folder has other ones, so a stranger's file is of no use here.
"""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.runs.files import atomic_write
from normexp.runs.summary import BESIDE, SUMMARY

MANY = 1000  # runs; fewer are read in three seconds, and leave no file
STORED = ".columns.npz"
LOOKED_AT = (SUMMARY, *BESIDE, os.path.join(".hydra", "identity"))
ABSENT = -1

Row = dict[str, Any]


class Columns:
    """Rows of plain values (text, numbers, bool, None): of each column the different values, and where each stands.

    1, 1.0 and True are different values. A row need not have every column.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._values: dict[str, dict[tuple[type, Any], int]] = {}
        self._codes: dict[str, list[int]] = {}

    def add(self, row: Row) -> None:
        """Add a row."""
        for name, value in row.items():
            if name not in self._values:
                self._values[name], self._codes[name] = {}, []
            values, codes = self._values[name], self._codes[name]
            codes.extend([ABSENT] * (self.rows - len(codes)))
            codes.append(values.setdefault((type(value), value), len(values)))
        self.rows += 1

    def table(self, order: Sequence[int] | None = None) -> pd.DataFrame:
        """These rows in this order, as pandas makes it of a list of rows."""
        taken = np.arange(self.rows) if order is None else np.asarray(order, dtype=int)
        found = {}
        for name, codes in self.codes().items():
            own = codes[taken]
            if (own != ABSENT).any():
                values = [value for _, value in self._values[name]] + [np.nan]
                found[name] = [values[code] for code in own.tolist()]
        return pd.DataFrame(found)

    def codes(self) -> dict[str, np.ndarray]:
        """Of each column the number of each row's value; -1 where a row lacks the column."""
        return {
            name: np.array(codes + [ABSENT] * (self.rows - len(codes)), np.int32)
            for name, codes in self._codes.items()
        }

    def write(self, path: Path, head: dict[str, Any], stamps: np.ndarray) -> None:
        """Write them whole or not at all."""
        text = {**head, "columns": {n: [value for _, value in v] for n, v in self._values.items()}}
        arrays = {str(place): codes for place, codes in enumerate(self.codes().values())}
        with atomic_write(path, on_disk=False) as file:
            head_bytes = np.frombuffer(json.dumps(text).encode(), np.uint8)
            np.savez_compressed(file, **{"head": head_bytes, "stamps": stamps, **arrays})  # type: ignore[arg-type]

    @classmethod
    def read(cls, path: Path) -> tuple["Columns", dict[str, Any], np.ndarray]:
        """(columns, head, stamps) of a file. Raises OSError, KeyError, TypeError or ValueError for any other."""
        found = cls()
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            head, stamps = json.loads(kept["head"].tobytes()), kept["stamps"]
            found.rows = len(stamps)
            for place, (name, values) in enumerate(head.pop("columns").items()):
                found._codes[name] = kept[str(place)].tolist()
                found._values[name] = {(type(value), value): code for code, value in enumerate(values)}
        return found, head, stamps


def stored_table(root: Path, folders: Sequence[Path], row_of: Callable[[Path], Row | None]) -> pd.DataFrame:
    """The table of runs, a row for each folder in this order. Rows come from the file of an earlier reading if nothing
    of the run has changed, otherwise from `row_of`; None is a run that is gone. Its errors are its own."""
    path, code = root / STORED, _code()
    columns, names, stamps = Columns(), [], np.zeros((0, 4 * len(LOOKED_AT)), np.int64)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        found, head, kept = Columns.read(path)
        if head["code"] == code and len(head["names"]) == found.rows:
            columns, names, stamps = found, head["names"], kept
    known = {name: place for place, name in enumerate(names)}
    order, added = [], []
    for folder in folders:
        name, stamp = folder.relative_to(root).as_posix(), _stamp(folder)
        place = known.get(name)
        if place is None or not np.array_equal(stamps[place], stamp):
            if (row := row_of(folder)) is None:
                continue
            place = columns.rows
            columns.add(row)
            names.append(name)
            added.append(stamp)
        order.append(place)
    if added:
        with contextlib.suppress(OSError):  # a folder that is only read
            columns.write(path, {"code": code, "names": names}, np.concatenate([stamps, np.array(added)]))
    return columns.table(order)


def _stamp(folder: Path) -> list[int]:
    """What changes when a file of the run is written, replaced, copied or removed."""
    found: list[int] = []
    for name in LOOKED_AT:
        try:
            status = os.stat(os.path.join(folder, name))
            found += [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        except OSError:
            found += [0, 0, 0, 0]
    return found


@cache
def _code() -> str:
    """A digest of the code that makes rows."""
    here = Path(__file__).parent
    files = [
        *sorted(here.glob("*.py")),
        here.parent / "config" / "identity.py",
        here.parent / "config" / "settings.py",
    ]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
