"""The user's own images, in a folder or an archive: decoded once, on all cores, into a cache that all runs share."""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import stat
import tarfile
import time
import warnings
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from normexp.data.base import AbsentData
from normexp.data.cache import cached, mapped, size_and_time
from normexp.data.images import PIXELS, ImageData, Images
from normexp.machine import cores, in_bytes, memory

SUFFIXES = {".png", ".jpg", ".jpeg"}
PARTS = ("train", "test")
LAYOUT = "expected train/CLASS/*.png|jpg|jpeg and test/CLASS/* in it"
COMPRESSIONS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}  # by the first bytes
MAX_BYTES, TOO_LARGE = 2**28, "it is larger than 256 MiB"  # of one encoded image
MAX_PIXELS = 2**26  # 8192 x 8192; a larger image may be a decompression bomb, or takes a gigabyte
END = 1024  # zeros at the end of a tar archive


class Unreadable(Exception):
    """Name of an image or of a whole source, and the reason why it cannot be read."""

    def __init__(self, name: object, error: Exception | str) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        super().__init__(str(name), " ".join(reason.split()))


def decode(content: bytes, size: int, channels: int) -> np.ndarray:
    """Pixels of a PNG or JPEG, uint8 (channels, size, size), turned upright by EXIF and resized to a square."""
    import PIL.Image
    import PIL.ImageOps

    # Other formats would start other parsers, and EPS a program.
    try:
        image: PIL.Image.Image = PIL.Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
    except PIL.UnidentifiedImageError:  # whose words name our buffer, not the file
        raise ValueError("neither a PNG nor a JPEG") from None
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"{image.width}x{image.height} pixels; at most {MAX_PIXELS:,} are decoded")
    image = PIL.ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):  # `convert` would cut them off at 255
        raise ValueError(f"more than 8 bits a pixel, mode {image.mode}")
    image = image.convert("L" if channels == 1 else "RGB")
    image = image.resize((size, size), PIL.Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(size, size, channels).transpose(2, 0, 1)


def decode_all(images: Iterable[tuple[object, bytes]], path: Path, size: int, channels: int) -> None:
    """Write named, encoded images as rows of uint8 (channels, size, size) into the file `path`, in the given order. A
    thread for each core decodes them.

    Raises Unreadable for a bad image, OSError if the file cannot be written.
    """
    from PIL.Image import DecompressionBombWarning

    waiting: deque[tuple[object, Future[np.ndarray]]] = deque()
    with warnings.catch_warnings(), path.open("wb") as file, ThreadPoolExecutor(cores()) as threads:
        warnings.simplefilter("error", DecompressionBombWarning)  # Pillow only warns of the smaller bombs

        def write_until(left: int) -> None:
            while len(waiting) > left:
                name, decoded = waiting.popleft()
                try:
                    pixels = decoded.result()
                except Exception as error:  # Pillow's decoders raise nearly any exception
                    raise Unreadable(name, error) from None
                file.write(pixels.tobytes())

        for name, content in images:
            waiting.append((name, threads.submit(decode, content, size, channels)))
            write_until(4 * cores())  # few encoded images wait in memory
        write_until(0)


class Name(NamedTuple):
    """Path of an image in its source: part/label/file."""

    part: str
    label: str
    file: str

    def __str__(self) -> str:
        return "/".join(self)


class Folder:
    """Images in the order of parts, labels and names. Other files and names that start with a dot are ignored.

    Methods raise Unreadable.

    Attributes:
        names: of all images; None if they are known only after all was read.
        content: a value that changes when the images change, found without reading them.
        size, read: bytes of the source, and how many of them `images` has read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = [image for part in PARTS for image in self._scan(part)]  # name, size, time of change
        self.size, self.read = sum(size for _, size, _ in self.content), 0
        self.names: list[Name] | None = [name for name, _, _ in self.content]

    def _scan(self, part: str) -> Iterator[tuple[Name, int, int]]:
        path = self.path / part
        if not path.is_dir():
            return
        try:
            labels = sorted(e.name for e in os.scandir(path) if e.is_dir() and _shown(e.name))
            for label in labels:
                path = self.path / part / label
                files = sorted(name for name in os.listdir(path) if _is_image(name))
                if not files:
                    raise Unreadable(f"{part}/{label}", "it has no image")
                for file in files:
                    path = self.path / part / label / file
                    status = path.stat()
                    if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait forever
                        raise Unreadable(f"{part}/{label}/{file}", "it is no file")
                    if status.st_size > MAX_BYTES:
                        raise Unreadable(f"{part}/{label}/{file}", TOO_LARGE)
                    yield Name(part, label, file), status.st_size, status.st_mtime_ns
        except OSError as error:  # no permission, a link to nowhere
            raise Unreadable(path.relative_to(self.path), error) from error

    def images(self) -> Iterator[tuple[Name, bytes]]:
        """All images, encoded."""
        for name, size, _ in self.content:
            try:
                content = (self.path / str(name)).read_bytes()
            except OSError as error:
                raise Unreadable(name, error) from error
            self.read += size
            yield name, content


class Archive:
    """The same of a .tar, .tar.gz or .tar.xz, in its own order. Nothing is unpacked to disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = size_and_time(path)
        self.size, self.read = path.stat().st_size, 0
        self.names: list[Name] | None = None

    def images(self) -> Iterator[tuple[Name, bytes]]:
        try:
            with (
                self.path.open("rb") as file,
                self._plain(file) as plain,
                tarfile.open(fileobj=plain, mode="r|", bufsize=2**20) as archive,
            ):
                seen, top = set[Name](), None
                for member in archive:
                    *above, part, label, image = ("", "", "", *PurePosixPath(member.name).parts)
                    if member.isreg() and part in PARTS and _shown(label) and _is_image(image):
                        name = Name(part, label, image)
                        top = above if top is None else top
                        if name in seen or above != top:  # two data sets, or two versions of one
                            raise Unreadable(name, "the archive holds it twice, or under two folders")
                        seen.add(name)
                        if member.size > MAX_BYTES:
                            raise Unreadable(name, TOO_LARGE)
                        content = cast(BinaryIO, archive.extractfile(member)).read()
                        if len(content) < member.size:
                            raise EOFError("it ends too early")
                        self.read = file.tell()
                        yield name, content
                    # tarfile would keep a record of every file.
                    archive.members = []  # type: ignore[attr-defined]
        except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise Unreadable(self.path, error) from error

    def _plain(self, file: BinaryIO) -> BinaryIO:
        """The decompressed archive. Reading past a cut is an error; tarfile alone would just end there."""
        start = file.read(6)
        opened = next((opened for magic, opened in COMPRESSIONS.items() if start.startswith(magic)), None)
        if opened is None:
            file.seek(-min(END, self.size), os.SEEK_END)
            if file.read() != bytes(END):
                raise EOFError("it is no tar archive, or was cut off")
        file.seek(0)
        return cast(BinaryIO, opened(file)) if opened else file


def _shown(name: str) -> bool:
    return not name.startswith(".")


def _is_image(name: str) -> bool:
    return _shown(name) and os.path.splitext(name)[1].lower() in SUFFIXES


@dataclass(kw_only=True, eq=False)
class ImageFolder(ImageData):
    """Images at `path`: a folder in the form train/CLASS/* and test/CLASS/*, or a .tar, .tar.gz or .tar.xz of one.

    Classes are numbered by name. Images are resized to image_size x image_size; their proportions are not kept. Other
    files and names that start with a dot are ignored. The fingerprint covers the names and contents of the images.
    """

    path: str | None
    image_size: int = 32
    channels: Literal[1, 3] = 3  # 1: converted to gray
    cache: str | None = None  # None: normexp in the user's cache folder

    def source(self) -> Folder | Archive:
        """The folder or archive. Raises ValueError if there is none."""
        if self.path is None:
            raise ValueError("data.path is not set: name a folder with data.path=FOLDER; " + LAYOUT)
        path = Path(self.path).expanduser()
        if path.is_dir():
            return Folder(path)
        if path.is_file():
            return Archive(path)
        raise AbsentData(f"data.path={self.path}: no such folder; {LAYOUT}")

    def read_images(self) -> Images:
        self._check_size()
        try:
            source = self.source()
            if source.names is not None:
                self._check(source.names)
            options = [str(source.path.resolve()), self.image_size, self.channels]
            name = type(self).__name__.lower()
            folder = cached(self.cache, name, options, source.content, lambda new: self._build(source, new))
        except Unreadable as error:
            name, reason = error.args
            raise ValueError(
                f"data.path={self.path}: cannot read {name} ({reason}); repair or remove it"
            ) from error
        return Images.read(folder)

    def _check_size(self) -> None:
        if self.image_size < 1:
            raise ValueError(f"data.image_size={self.image_size}: choose a side of 1 pixel or more")
        needed = 4 * self.batch_size * self.channels * self.image_size**2  # bytes
        if needed > memory():
            raise ValueError(
                f"data.image_size={self.image_size}: a batch of {self.batch_size} would take {in_bytes(needed)}, and "
                f"this machine has {in_bytes(memory())}; choose a smaller side"
            )

    def _check(self, names: list[Name]) -> None:
        """Refuse a layout unless training and test have images of the same classes, two or more."""
        train, test = ({name.label for name in names if name.part == part} for part in PARTS)
        if not train or not test:
            raise ValueError(
                f"data.path={self.path}: it has no image for {'test' if train else 'train'}; {LAYOUT}"
            )
        if len(train) == 1:
            raise ValueError(f"data.path={self.path}: train has one class, {min(train)}; two are needed")
        if train != test:
            odd = ", ".join(sorted(train ^ test))
            raise ValueError(
                f"data.path={self.path}: {odd} in only one of train and test; both need all classes"
            )

    def _build(self, source: Folder | Archive, folder: Path) -> None:
        names: list[Name] = []
        digest = hashlib.sha256()

        def contents() -> Iterator[tuple[str, bytes]]:
            for name, content in source.images():
                names.append(name)
                digest.update(f"{name} {len(content)}\n".encode())
                digest.update(content)
                progress.update(task, completed=source.read)
                yield str(name), content

        pixels = folder / PIXELS
        started, screen = time.monotonic(), Console(stderr=True)
        columns = (TextColumn("decoding images"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
            task = progress.add_task("", total=source.size)
            decode_all(contents(), pixels, self.image_size, self.channels)
        self._check(names)
        classes = {label: number for number, label in enumerate(sorted({name.label for name in names}))}
        order = sorted(range(len(names)), key=names.__getitem__)
        images = Images(
            pixels=mapped(pixels, [len(names), self.channels, self.image_size, self.image_size]),
            labels=torch.tensor([classes[name.label] for name in names]),
            train=torch.tensor([row for row in order if names[row].part == "train"]),
            test=torch.tensor([row for row in order if names[row].part == "test"]),
            num_classes=len(classes),
            fingerprint=digest.hexdigest(),
        )
        images.write(folder)
        took, size = time.monotonic() - started, pixels.stat().st_size / 2**20
        screen.print(
            f"decoded {len(names):,} images in {took:.1f} s, kept for later runs: {folder.parent} ({size:.0f} MB)",
            highlight=False,
            soft_wrap=True,
        )
