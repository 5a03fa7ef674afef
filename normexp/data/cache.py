"""A folder on disk that holds what was computed from a data set once, for all runs and processes."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

FORMAT = 1  # of what is stored; another number computes everything anew


def cache_folder(chosen: str | None) -> Path:
    """Where the cache lies: `data.cache`, or $NORMEXP_CACHE, or `normexp` in the user's cache folder."""
    if chosen := chosen or os.environ.get("NORMEXP_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normexp"


def cached(chosen: str | None, name: str, source: Any, content: Any, build: Callable[[Path], None]) -> Path:
    """The folder `<cache>/<name>-<hash of source>/<hash of content>`, which `build` fills if it is not there.

    It is built beside and renamed, so it is there whole or not at all; one process builds and the others wait. What
    was built of earlier content of the same source is removed.

    Args:
        chosen: `data.cache`.
        source: where the data lie and the options that shape what is stored.
        content: what is there now: names, sizes and times of files.

    Raises ValueError, in one line, where nothing can be written.
    """
    place = cache_folder(chosen) / f"{name}-{_hash(source)}"
    folder = place / _hash([FORMAT, content])
    if folder.is_dir():
        return folder
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place / ".lock"):
            if not folder.is_dir():
                _build(place, folder, build)
    except OSError as error:
        raise ValueError(
            f"data.cache={chosen or place.parent}: cannot be written ({error.strerror or error}); "
            "name a folder with room with data.cache=FOLDER"
        ) from error
    return folder


def _build(place: Path, folder: Path, build: Callable[[Path], None]) -> None:
    for stale in place.iterdir():  # of other content, or left by a process that was killed
        if stale.is_dir():
            shutil.rmtree(stale, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(dir=place, prefix=".partial-"))
    try:
        build(partial)
        for path in partial.iterdir():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        partial.chmod(0o755)  # temporary folders are private by default
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextlib.contextmanager
def _locked(path: Path):
    """The lock's file stays: removed, it would be another one to processes that wait and to those that come."""
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
