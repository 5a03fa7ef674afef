"""The user's own images, in a folder or an archive: decoded once, on all cores, into a cache that all runs share."""

import hashlib
import io
import lzma
import os
import stat
import tarfile
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, NamedTuple, cast

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from normexp.data.base import AbsentData
from normexp.data.cache import cached, mapped, size_and_time
from normexp.data.images import PIXELS, ImageData, Images
from normexp.format import printable
from normexp.machine import cores

SUFFIXES = {".png", ".jpg", ".jpeg"}
PARTS = ("train", "test")
LAYOUT = "expected train/CLASS/*.png|jpg|jpeg and test/CLASS/* in it"
MAX_BYTES, TOO_LARGE = 2**28, "it is larger than 256 MiB"  # of one encoded image
MAX_PIXELS = 2**26  # 8192 x 8192; a larger image may be a decompression bomb, or takes a gigabyte


class Unreadable(Exception):
    """Name of an image or of a whole source, and the reason why it cannot be read."""

    def __init__(self, name: object, error: Exception | str) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        super().__init__(printable(str(name)), printable(" ".join(reason.split())))


class Name(NamedTuple):
    """Path of an image in its source: part/label/file."""

    part: str
    label: str
    file: str

    def __str__(self) -> str:
        return "/".join(self)


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


def decode_all(images: Iterator[tuple[Name, bytes]], path: Path, size: int, channels: int) -> None:
    """Write encoded images as rows of uint8 (channels, size, size) into the file `path`, in their order. A thread for
    each core decodes them.

    Raises Unreadable for a bad image, OSError if the file cannot be written.
    """
    from PIL.Image import DecompressionBombWarning

    def decoded(image: tuple[Name, bytes]) -> np.ndarray:
        try:
            return decode(image[1], size, channels)
        except Exception as error:  # Pillow's decoders raise nearly any exception
            raise Unreadable(image[0], error) from None

    with warnings.catch_warnings(), path.open("wb") as file, ThreadPoolExecutor(cores()) as threads:
        warnings.simplefilter("error", DecompressionBombWarning)  # Pillow only warns of the smaller bombs
        while some := list(islice(images, 32 * cores())):  # few encoded images wait in memory
            for pixels in threads.map(decoded, some):
                file.write(pixels.tobytes())


def scan(folder: Path) -> Iterator[tuple[Name, int, int]]:
    """(name, size, time of change) of each image, in the order of parts, labels and names. Raises Unreadable."""
    path = folder
    try:
        for part in (part for part in PARTS if (folder / part).is_dir()):
            path = folder / part
            labels = sorted(e.name for e in os.scandir(path) if e.is_dir() and _shown(e.name))
            for label in labels:
                path = folder / part / label
                files = sorted(name for name in os.listdir(path) if _is_image(name))
                if not files:
                    raise Unreadable(f"{part}/{label}", "it has no image")
                for file in files:
                    path, name = folder / part / label / file, Name(part, label, file)
                    status = path.stat()
                    if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait forever
                        raise Unreadable(name, "it is no file")
                    if status.st_size > MAX_BYTES:
                        raise Unreadable(name, TOO_LARGE)
                    yield name, status.st_size, status.st_mtime_ns
    except OSError as error:  # no permission, a link to nowhere
        raise Unreadable(path.relative_to(folder), error) from error


def images_of_folder(folder: Path, names: Iterable[Name]) -> Iterator[tuple[Name, bytes]]:
    """The images of these names, encoded. Raises Unreadable."""
    for name in names:
        try:
            yield name, (folder / str(name)).read_bytes()
        except OSError as error:
            raise Unreadable(name, error) from error


def images_of_archive(path: Path) -> Iterator[tuple[Name, bytes]]:
    """The images of a .tar, .tar.gz, .tar.bz2 or .tar.xz, encoded, in its own order. Nothing is unpacked to disk.
    Raises Unreadable."""
    seen, top = set[Name](), None
    try:
        with tarfile.open(path) as archive:
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
                    yield name, cast(IO[bytes], archive.extractfile(member)).read()
                archive.members = []  # type: ignore[attr-defined]  # a record of every file
            if not cast(IO[bytes], archive.fileobj).read():  # zeros end an archive
                raise EOFError("it was cut off")
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise Unreadable(path, error) from error


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

    def place(self) -> Path:
        """The folder or archive. Raises ValueError if there is none."""
        if self.path is None:
            raise ValueError("data.path is not set: name a folder with data.path=FOLDER; " + LAYOUT)
        path = Path(self.path).expanduser()
        if not (path.is_dir() or path.is_file()):
            raise AbsentData(f"data.path={self.path}: no such folder; {LAYOUT}")
        return path

    def read_images(self) -> Images:
        if self.image_size < 1:
            raise ValueError(f"data.image_size={self.image_size}: choose a side of 1 pixel or more")
        path = self.place()
        options = [str(path.resolve()), self.image_size, self.channels]
        try:
            found: list[tuple[Name, int, int]] | None = list(scan(path)) if path.is_dir() else None
            names = None if found is None else [name for name, _, _ in found]
            if names is not None:
                self._check(names)
            content: Any = size_and_time(path) if found is None else found
            kind = type(self).__name__.lower()
            folder = cached(self.cache, kind, options, content, lambda new: self._build(path, names, new))
        except Unreadable as error:
            name, reason = error.args
            raise ValueError(
                f"data.path={self.path}: cannot read {name} ({reason}); repair or remove it"
            ) from error
        return Images.read(folder)

    def _check(self, names: list[Name]) -> None:
        """Refuse a layout unless training and test have images of the same classes, two or more."""
        train, test = ({printable(name.label) for name in names if name.part == part} for part in PARTS)
        wrong = ""
        if not train or not test:
            wrong = f"it has no image for {'test' if train else 'train'}; {LAYOUT}"
        elif len(train) == 1:
            wrong = f"train has one class, {min(train)}; two are needed"
        elif train != test:
            wrong = f"{', '.join(sorted(train ^ test))} in only one of train and test; both need all classes"
        if wrong:
            raise ValueError(f"data.path={self.path}: {wrong}")

    def _build(self, path: Path, known: list[Name] | None, folder: Path) -> None:
        names: list[Name] = []
        digest = hashlib.sha256()

        def contents() -> Iterator[tuple[Name, bytes]]:
            images = images_of_archive(path) if known is None else images_of_folder(path, known)
            total = None if known is None else len(known)
            shown: dict[str, Any] = {"total": total, "console": screen, "transient": True}
            for name, content in track(images, "decoding images", disable=not screen.is_terminal, **shown):
                names.append(name)
                digest.update(f"{name} {len(content)}\n".encode())
                digest.update(content)
                yield name, content

        pixels, started, screen = folder / PIXELS, time.monotonic(), Console(stderr=True)
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
        kept = f"kept for later runs: {printable(str(folder.parent))} ({size:.0f} MB)"
        said = f"decoded {len(names):,} images in {took:.1f} s, {kept}"
        screen.print(said, highlight=False, markup=False, soft_wrap=True)
