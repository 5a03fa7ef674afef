"""A file that a run appends to. A resumed run continues it at its length at the checkpoint."""

import os
import time
from io import FileIO
from pathlib import Path

from normexp.runs import damaged

FLUSH_SECONDS, FLUSH_BYTES = 10.0, 2**20  # at most so late and so much


class AppendedFile:
    """Collects bytes in memory and appends them at a flush. So a full disk is an error only at a flush.

    Bytes that a killed run wrote after its checkpoint are cut off. The resumed run writes them again, so no number is
    missing or stands there twice.

    Args:
        path: a symbolic link is refused, because the folder may come from a stranger.
        keep: continue after so many bytes; 0 starts an empty file.

    Raises ValueError with one line if the file is shorter.
    """

    def __init__(self, path: Path, keep: int = 0):
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        # Unbuffered, so that closing the file after a failed write does not try again.
        self._file = FileIO(os.open(path, flags, 0o644), "r+b")
        found = os.fstat(self._file.fileno()).st_size
        if found < keep:
            self._file.close()
            raise damaged(path, f"{found} bytes are left of {keep}", path.parent)
        if found > keep:
            self._file.truncate(keep)
        self._file.seek(keep)
        self._pending: list[bytes] = []
        self._bytes = 0  # that are pending
        self._next_flush = 0.0

    def write(self, content: bytes) -> None:
        self._pending.append(content)
        self._bytes += len(content)

    def flush_if_due(self) -> None:
        if time.monotonic() > self._next_flush or self._bytes > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        content = memoryview(b"".join(self._pending))
        self._pending, self._bytes = [], 0
        while content:
            content = content[self._file.write(content) :]
        self._next_flush = time.monotonic() + FLUSH_SECONDS

    def size(self) -> int:
        """Length of the file with all flushed bytes."""
        return self._file.tell()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()
