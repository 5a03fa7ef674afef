"""The file of a lock goes when the lock is released, so nothing stays behind."""

import contextlib
from pathlib import Path

from filelock import FileLock


def remove(lock: FileLock) -> None:
    """Remove the lock's file and release it. Who waited for this file notices, and locks a new one (filelock 3.21)."""
    if not lock.is_locked:  # another process holds it; an interruption ended the wait
        return
    with contextlib.suppress(OSError):  # still locked, so that no other process locks it meanwhile
        Path(lock.lock_file).unlink()
    lock.release()
