"""Replace files whole or not at all: write under another name, flush to disk, rename. Locks leave no file behind."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from filelock import FileLock

BESIDE = ".new"


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write. If the block ends without an error, the file replaces `path`, and after a power cut, too. After
    an error `path` stays as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}{BESIDE}")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        flush_folder(path.parent)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # which a full disk does not tell
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def flush_folder(folder: Path) -> None:
    """Flush to disk which names a folder holds. Windows opens no folder, and some network drives flush none."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write text whole or not at all."""
    with atomic_write(path) as file:
        file.write(text.encode())


def finite_json(content: Any) -> Any:
    """Plain values as JSON gives them back, with None for each number that is not finite: JSON has no NaN."""
    return json.loads(json.dumps(content), parse_constant=lambda name: None)


def write_json(path: Path, content: Any, *, indent: int = 2) -> None:
    """Write JSON whole or not at all. Numbers must be finite, because JSON has no NaN."""
    write_text(path, json.dumps(content, indent=indent, allow_nan=False) + "\n")


def remove_unfinished(folder: Path) -> None:
    """Remove the unfinished files of killed writers. No other process may be writing in `folder`."""
    for path in folder.glob(f".*{BESIDE}"):
        if path.is_file():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Only one process at a time reads this file and writes it anew."""
    from filelock import FileLock

    lock = FileLock(path.with_name(f".{path.name}.lock"))
    lock.acquire()
    try:
        yield
    finally:
        release(lock)


def release(lock: "FileLock") -> None:
    """Delete the lock's file and release the lock. A process that waits for this file notices, and locks a new one
    (filelock 3.21)."""
    if not lock.is_locked:  # another process holds it; an interruption ended the wait
        return
    with contextlib.suppress(OSError):  # still locked, so that no other process locks it meanwhile
        Path(lock.lock_file).unlink()
    lock.release()
