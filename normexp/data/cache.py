"""What is computed from a data set once, on disk, and mapped into the memory of all runs and processes."""

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import DTypeLike
from torch import Tensor

FORMAT = 3  # of what is stored; raise it to compute everything anew


def cache_folder(chosen: str | None) -> Path:
    """The folder of the cache: `data.cache`, else $NORMEXP_CACHE, else `normexp` in the user's cache folder."""
    if chosen := chosen or os.environ.get("NORMEXP_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normexp"


def cached(chosen: str | None, name: str, source: Any, content: Any, build: Callable[[Path], None]) -> Path:
    """The folder `<cache>/<name>-<hash of source>/<hash of content>`. `build` fills it if it does not exist.

    The folder is built under another name and then renamed, so it is never incomplete. One process builds it while the
    others wait. One that was built from earlier content of the same source is removed.

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
        with FileLock(place / ".lock"):
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
        partial.chmod(0o755)  # temporary folders are private by default
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def size_and_time(path: Path) -> tuple[int, int]:
    """Of a file; they change when it is written."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def mapped(path: Path, shape: Sequence[int], dtype: DTypeLike = np.uint8) -> Tensor:
    """An array on disk as a tensor that nobody writes to. Memory holds the parts in use, once for all processes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.memmap(path, dtype, mode="r", shape=tuple(shape)))
