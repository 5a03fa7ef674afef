"""A folder on disk for what is computed from a data set once, shared by all runs and processes."""

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

FORMAT = 1  # of what is stored; raise it to compute everything anew


def cache_folder(chosen: str | None) -> Path:
    """The folder of the cache: `data.cache`, else $NORMEXP_CACHE, else `normexp` in the user's cache folder."""
    if chosen := chosen or os.environ.get("NORMEXP_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normexp"


def cached(chosen: str | None, name: str, source: Any, content: Any, build: Callable[[Path], None]) -> Path:
    """The folder `<cache>/<name>-<hash of source>/<hash of content>`. `build` fills it if it does not exist.

    The folder is built under another name and then renamed, so it is never incomplete. One process builds it while the
    others wait. A folder built from earlier content of the same source is removed.

    Args:
        chosen: `data.cache`.
        source: the place of the data, and the options that shape what is stored.
        content: names, sizes and times of the files that are there now.

    Raises ValueError with one line if nothing can be written.
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
    for stale in place.iterdir():  # built from other content, or left by a killed process
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
