"""Sources of encoded images: a folder or an archive with train/CLASS/* and test/CLASS/* in it."""

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

SUFFIXES = {".png", ".jpg", ".jpeg"}
PARTS = ("train", "test")
COMPRESSIONS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}  # by the first bytes
MOST_BYTES, TOO_LARGE = 2**28, "it is larger than 256 MiB"  # of one encoded image
END = 1024  # zeros at the end of a tar archive


class Name(NamedTuple):
    """Path of an image in its source: part/label/file."""

    part: str
    label: str
    file: str

    def __str__(self) -> str:
        return "/".join(self)


class Unreadable(Exception):
    """An image or a whole source, and the reason why it cannot be read."""

    def __init__(self, name: Name | Path | str, error: Exception | str) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        super().__init__(str(name), " ".join(reason.split()))


class Folder:
    """Images in the order of parts, labels and names. Other files and names that start with a dot are ignored.

    Methods raise Unreadable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, dict[str, list[tuple[str, int, int]]]] = {}  # name, size, time of change
        for part in PARTS:
            if (path / part).is_dir():
                with os.scandir(path / part) as entries:
                    labels = sorted(e.name for e in entries if e.is_dir() and _shown(e.name))
                self.files[part] = {label: sorted(self._scan(Path(part, label))) for label in labels}

    def _scan(self, folder: Path) -> Iterator[tuple[str, int, int]]:
        with os.scandir(self.path / folder) as entries:
            images = [entry for entry in entries if _is_image(entry.name)]
        for entry in images:
            try:
                status = entry.stat()
            except OSError as error:  # a link to nowhere
                raise Unreadable(folder / entry.name, error) from error
            if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait forever
                raise Unreadable(folder / entry.name, "it is no file")
            if status.st_size > MOST_BYTES:
                raise Unreadable(folder / entry.name, TOO_LARGE)
            yield entry.name, status.st_size, status.st_mtime_ns

    def content(self) -> Any:
        """A value that changes when the images change, found without reading them."""
        return self.files

    def counts(self) -> dict[str, dict[str, int]]:
        """part -> label -> number of images."""
        return {
            part: {label: len(files) for label, files in labels.items()}
            for part, labels in self.files.items()
        }

    def images(self) -> Iterator[tuple[Name, bytes]]:
        """All images, encoded."""
        for part, labels in self.files.items():
            for label, files in labels.items():
                for file, _, _ in files:
                    name = Name(part, label, file)
                    try:
                        content = (self.path / str(name)).read_bytes()
                    except OSError as error:
                        raise Unreadable(name, error) from error
                    yield name, content


class Archive:
    """The same of a .tar, .tar.gz or .tar.xz, in its own order. Nothing is unpacked to disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def content(self) -> Any:
        status = self.path.stat()
        return [status.st_size, status.st_mtime_ns]

    def counts(self) -> None:
        """They are known only after all of it was read."""

    def images(self) -> Iterator[tuple[Name, bytes]]:
        try:
            with self._plain() as plain, tarfile.open(fileobj=plain, mode="r|", bufsize=2**20) as archive:
                for member in archive:
                    *_, part, label, file = ("", "", "", *PurePosixPath(member.name).parts)
                    if member.isreg() and part in PARTS and _shown(label) and _is_image(file):
                        if member.size > MOST_BYTES:
                            raise Unreadable(Name(part, label, file), TOO_LARGE)
                        content = archive.extractfile(member).read()
                        if len(content) < member.size:
                            raise EOFError("it ends too early")
                        yield Name(part, label, file), content
                    archive.members = []  # tarfile would keep a record of every file
        except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise Unreadable(self.path, error) from error

    def _plain(self) -> BinaryIO:
        """The decompressed archive. Reading past a cut is an error; tarfile alone would just end there."""
        with self.path.open("rb") as file:
            start = file.read(6)
            for magic, opened in COMPRESSIONS.items():
                if start.startswith(magic):
                    return opened(self.path)
            file.seek(-min(END, self.path.stat().st_size), os.SEEK_END)
            if file.read() != bytes(END):
                raise EOFError("it is no tar archive, or was cut off")
        return self.path.open("rb")


def _shown(name: str) -> bool:
    return not name.startswith(".")


def _is_image(name: str) -> bool:
    return _shown(name) and os.path.splitext(name)[1].lower() in SUFFIXES
