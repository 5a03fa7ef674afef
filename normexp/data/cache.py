"""What is computed from a data set once, on disk, and mapped into the memory of all runs and processes."""

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import DTypeLike
from rich.console import Console
from torch import Tensor

FORMAT = 2  # of what is stored; raise it to compute everything anew
MANIFEST = "manifest.json"  # size, time and sha256 of each file of a folder
LARGE = 2**30  # bytes; a larger file may not fit into memory


def cache_folder(chosen: str | None) -> Path:
    """The folder of the cache: `data.cache`, else $NORMEXP_CACHE, else `normexp` in the user's cache folder."""
    if chosen := chosen or os.environ.get("NORMEXP_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normexp"


def cached(chosen: str | None, name: str, source: Any, content: Any, build: Callable[[Path], None]) -> Path:
    """The folder `<cache>/<name>-<hash of source>/<hash of content>`. `build` fills it if it does not exist.

    The folder is built under another name and then renamed, so it is never incomplete. One process builds it while the
    others wait. A folder whose files were changed or cut off since is built anew, and one that was built from earlier
    content of the same source is removed.

    Args:
        chosen: `data.cache`.
        source: the place of the data, and the options that shape what is stored.
        content: names, sizes and times of the files that are there now.

    Raises ValueError with one line if nothing can be written.
    """
    place = cache_folder(chosen) / f"{name}-{_hash(source)}"
    folder = place / _hash([FORMAT, content])
    try:
        if _damage(folder) is None:
            return folder
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place / ".lock"):
            damage = _damage(folder)
            if damage is not None:
                if folder.is_dir():
                    Console(stderr=True).print(
                        f"{folder}: {damage} since it was written; it is made anew",
                        highlight=False,
                        soft_wrap=True,
                    )
                _build(place, folder, build)
    except OSError as error:
        raise ValueError(
            f"data.cache={chosen or place.parent}: cannot be written ({error.strerror or error}); "
            "name a folder with room with data.cache=FOLDER"
        ) from error
    return folder


def _build(place: Path, folder: Path, build: Callable[[Path], None]) -> None:
    for stale in place.iterdir():  # built from other content, damaged, or left by a killed process
        if stale.is_dir():
            shutil.rmtree(stale, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(dir=place, prefix=".partial-"))
    try:
        build(partial)
        manifest = {path.name: [*size_and_time(path), _sha256(path)] for path in partial.iterdir()}
        (partial / MANIFEST).write_text(json.dumps(manifest))
        for path in partial.iterdir():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        partial.chmod(0o755)  # temporary folders are private by default
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _damage(folder: Path) -> str | None:
    """What happened to a folder of the cache; None if it is as it was built. Files are read if their times changed."""
    try:
        for name, (size, time, digest) in json.loads((folder / MANIFEST).read_text()).items():
            now = size_and_time(folder / name)
            if now != (size, time) and (now[0] != size or _sha256(folder / name) != digest):
                return f"{name} was changed or cut off"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} was removed"
    except (ValueError, TypeError, AttributeError):  # no JSON, or of another form
        return f"{MANIFEST} was changed or cut off"
    return None


def size_and_time(path: Path) -> tuple[int, int]:
    """Of a file; they change when it is written."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _locked(path: Path):
    """Hold a lock. Its file stays: if it were removed, later processes would lock a new file and not wait."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=1)
    except Timeout:
        Console(stderr=True).print(f"waiting: another process prepares {path.parent}", highlight=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class MappedFile:
    """An array on disk. Memory holds only the parts in use, once for all processes.

    Attributes:
        tensor: the whole array; do not write to it.
        large: whether to ask for rows ahead of time. The system would otherwise read on after each row, and push
            needed rows out of memory.
    """

    def __init__(self, path: Path, shape: Sequence[int], dtype: DTypeLike = np.uint8) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.large = len(self._map) > LARGE
        self._advises = self.large and hasattr(mmap, "MADV_WILLNEED")
        if self._advises:
            self._map.madvise(mmap.MADV_RANDOM)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            self.tensor: Tensor = torch.from_numpy(np.frombuffer(self._map, dtype).reshape(tuple(shape)))
        self._row = len(self._map) // shape[0]

    def prefetch(self, rows: Iterable[int]) -> None:
        """Ask the system to read rows from disk; do not wait."""
        if not self._advises:
            return
        for row in rows:
            start = row * self._row
            page = start - start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, start + self._row - page)
