"""Any text file of the user's, plain or gzipped."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from normexp.data.text import TextData


@dataclass(kw_only=True, eq=False)
class TextFile(TextData):
    """UTF-8 text at `path`, cut in three: the first 90% train, the next 5% validate, the last 5% test."""

    path: str | None

    def read_text(self) -> dict[str, str]:
        if self.path is None:
            raise ValueError("data.path is not set: name a text file with data.path=FILE, plain or .gz")
        content = self._content()
        self.fingerprint = hashlib.sha256(content).hexdigest()
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"data.path={self.path}: no text in UTF-8 ({error}); convert it first"
            ) from error
        if not text:
            raise ValueError(f"data.path={self.path}: the file is empty; give a text longer than a context")
        train_end, val_end = len(text) * 90 // 100, len(text) * 95 // 100
        return {"train": text[:train_end], "val": text[train_end:val_end], "test": text[val_end:]}

    def _content(self) -> bytes:
        try:
            content = Path(self.path).expanduser().read_bytes()
            return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"data.path={self.path}: {reason}; give a text file, plain or .gz") from error
