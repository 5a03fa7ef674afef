"""A file that a run appends to, and that goes on at the length which it had at the checkpoint."""

import os
import time
from io import FileIO
from pathlib import Path

from normexp.runs import damaged

FLUSH_SECONDS, FLUSH_BYTES = 10.0, 2**20  # so late do people see a number, and so much is kept in memory


class AppendedFile:
    """Collects bytes in memory and appends them when it is flushed, so that only then a full disk is an error.

    What a killed run wrote after its checkpoint is cut off: the resumed run writes it again, and no number stands there
    twice or is missing.

    Args:
        path: a symbolic link is refused: a run folder may be a stranger's.
        keep: go on after so many bytes; 0 starts afresh.

    Raises ValueError, in one line, where the file is shorter.
    """

    def __init__(self, path: Path, keep: int = 0):
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        # Unbuffered: after a failed write, closing it must not try again.
        self._file = FileIO(os.open(path, flags, 0o644), "r+b")
        found = os.fstat(self._file.fileno()).st_size
        if found < keep:
            self._file.close()
            raise damaged(path, f"{found} bytes are left of {keep}", path.parent)
        if found > keep:
            self._file.truncate(keep)
        self._file.seek(keep)
        self._pending: list[bytes] = []
        self._next_flush = 0.0

    def write(self, content: bytes) -> None:
        self._pending.append(content)

    def flush_if_due(self) -> None:
        if time.monotonic() > self._next_flush or sum(map(len, self._pending)) > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        content = memoryview(b"".join(self._pending))
        self._pending = []
        while content:
            content = content[self._file.write(content) :]
        self._next_flush = time.monotonic() + FLUSH_SECONDS

    def size(self) -> int:
        """Length of the file, with all that was flushed."""
        return self._file.tell()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()
