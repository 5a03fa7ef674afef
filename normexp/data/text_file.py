"""A text file of the user, plain or gzipped."""

import codecs
import gzip
import hashlib
import json
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from normexp.data.cache import cached
from normexp.data.mapped_file import MappedFile
from normexp.data.text import TextData
from normexp.data.tokens import Encoder, vocabulary_of

CHUNK = 2**22  # bytes that are decoded at once
MOST_RATIO = 100
TOKENS, ABOUT = "tokens", "about.json"


@dataclass(kw_only=True, eq=False)
class TextFile(TextData):
    """UTF-8 text at `path`, cut in three: the first 90% train, the next 5% validate, the last 5% test.

    The cache keeps the tokens, so a file may be larger than memory.
    """

    path: str | None
    cache: str | None = None  # None: normexp in the user's cache folder

    def read_tokens(self) -> dict[str, Tensor]:
        if self.path is None:
            raise ValueError("data.path is not set: name a text file with data.path=FILE, plain or .gz")
        path = Path(self.path).expanduser()
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise OSError(0, "Is a directory" if path.is_dir() else "Is no file")
        except OSError as error:
            raise self._unreadable(error) from error
        now = [status.st_size, status.st_mtime_ns]
        folder = cached(self.cache, "text", str(path.resolve()), now, lambda new: self._build(path, new))
        about = json.loads((folder / ABOUT).read_text())
        self.vocabulary, self.fingerprint = about["vocabulary"], about["fingerprint"]
        length = about["length"]
        tokens = MappedFile(folder / TOKENS, [length], Encoder(self.vocabulary).dtype).tensor
        train_end, val_end = length * 90 // 100, length * 95 // 100
        return {"train": tokens[:train_end], "val": tokens[train_end:val_end], "test": tokens[val_end:]}

    def _build(self, path: Path, folder: Path) -> None:
        digest = hashlib.sha256()
        vocabulary = vocabulary_of(self._texts(path, digest))
        if not vocabulary:
            raise ValueError(f"data.path={self.path}: the file is empty; give a text longer than a context")
        encoder, length = Encoder(vocabulary), 0
        with (folder / TOKENS).open("wb") as file:
            for text in self._texts(path):
                file.write(encoder(text))
                length += len(text)
        about = {"length": length, "vocabulary": vocabulary, "fingerprint": digest.hexdigest()}
        (folder / ABOUT).write_text(json.dumps(about))

    def _texts(self, path: Path, digest=None) -> Iterator[str]:
        """The text in pieces. `digest` is updated with its bytes."""
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        try:
            with path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
            with gzip.open(path) if packed else path.open("rb") as file:
                read, most = 0, max(2**28, MOST_RATIO * path.stat().st_size)
                while content := file.read(CHUNK):
                    read += len(content)
                    if read > most:  # a few bytes can unpack to a full disk
                        raise OSError(f"unpacks to more than {MOST_RATIO} times its size, no text does")
                    if digest:
                        digest.update(content)
                    yield decoder.decode(content)
                yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"data.path={self.path}: no text in UTF-8 ({error.reason}); convert it first"
            ) from error
        except (OSError, EOFError, zlib.error) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ValueError:
        reason = getattr(error, "strerror", None) or error
        return ValueError(f"data.path={self.path}: {reason}; give a text file, plain or .gz")
