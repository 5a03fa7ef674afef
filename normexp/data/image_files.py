"""The user's own images, in a folder or an archive: decoded once, on all cores, into a cache that all runs share."""

import hashlib
import io
import json
import lzma
import os
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, cast

import numpy as np
import torch
from filelock import FileLock
from rich.console import Console
from rich.progress import track

from normexp.data.base import Count
from normexp.data.images import ImageData, Images
from normexp.format import printable, say
from normexp.machine import cores

SUFFIXES = (".png", ".jpg", ".jpeg")
PARTS = ("train", "test")
LAYOUT = "expected train/CLASS/*.png|jpg|jpeg and test/CLASS/* in it"
MAX_PIXELS = 2**26  # 8192 x 8192; a larger image may be a decompression bomb, or takes a gigabyte
PIXELS, REST = "pixels.u8", "rest.pt"
Name = tuple[str, str, str]  # part, label, file


class Unreadable(Exception):
    """Name of an image or of a whole source, and the reason why it cannot be read."""

    def __init__(self, name: object, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        super().__init__(f"cannot read {printable(str(name))} ({printable(' '.join(reason.split()))})")


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


def is_image(label: str, file: str) -> bool:
    """Whether a file's name is one of an image, and not hidden."""
    return not label.startswith(".") and not file.startswith(".") and file.lower().endswith(SUFFIXES)


def scan(folder: Path) -> list[tuple[Name, int, int]]:
    """(name, size, time of change) of each image in a folder, in the order of parts, labels and files."""
    found = []
    for part in PARTS:
        for path in (folder / part).glob("*/*"):
            if is_image(path.parent.name, path.name) and path.is_file():
                status = path.stat()
                found.append(((part, path.parent.name, path.name), status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda image: (PARTS.index(image[0][0]), image[0]))


def encoded_images(path: Path) -> Iterator[tuple[Name, bytes]]:
    """The images of a folder, or of a .tar, .tar.gz, .tar.bz2 or .tar.xz in its own order. Raises Unreadable."""
    try:
        if path.is_dir():
            for name, _, _ in scan(path):
                yield name, path.joinpath(*name).read_bytes()
            return
        with tarfile.open(path) as archive:
            for member in archive:
                part, label, file = ("", "", "", *PurePosixPath(member.name).parts)[-3:]
                if member.isreg() and part in PARTS and is_image(label, file):
                    yield (part, label, file), cast(IO[bytes], archive.extractfile(member)).read()
                archive.members = []  # type: ignore[attr-defined]  # a record of every file
    except (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError) as error:
        raise Unreadable(getattr(error, "filename", None) or path, error) from error


def cached(chosen: str | None, key: Any, build: Callable[[Path], None]) -> Path:
    """The folder `<cache>/<hash of key>`. If it is not there, one process fills it by `build` while the others wait. It
    is built under another name and then renamed, so it is never incomplete.

    Args:
        chosen: the folder of the cache, `data.cache`; None: $NORMEXP_CACHE, or `normexp` in the user's cache folder.

    Raises ValueError with one line if nothing can be written.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normexp"
    cache = Path(chosen or os.environ.get("NORMEXP_CACHE") or home).expanduser()
    folder = cache / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=cache) as temporary:
            if not folder.is_dir():
                partial = Path(temporary) / "partial"
                partial.mkdir()
                build(partial)
                partial.rename(folder)
    except OSError as error:
        raise ValueError(
            f"data.cache={cache}: cannot be written ({error.strerror or error}); name a folder with room with "
            "data.cache=FOLDER"
        ) from error
    return folder


@dataclass(kw_only=True, eq=False)
class ImageFolder(ImageData):
    """Images at `path`: a folder in the form train/CLASS/* and test/CLASS/*, or a .tar, .tar.gz or .tar.xz of one.

    Classes are numbered by name. Images are resized to image_size x image_size; their proportions are not kept. Other
    files and names that start with a dot are ignored. The fingerprint covers the names and contents of the images.
    """

    path: str | None
    image_size: Count = 32
    channels: Literal[1, 3] = 3  # 1: converted to gray
    cache: str | None = None  # None: normexp in the user's cache folder

    def location(self) -> Path:
        """The folder or archive. Raises ValueError if there is none."""
        if self.path is None:
            raise ValueError("data.path is not set: name a folder with data.path=FOLDER; " + LAYOUT)
        path = Path(self.path).expanduser()
        if not (path.is_dir() or path.is_file()):
            raise ValueError(f"data.path={self.path}: no such folder; {LAYOUT}")
        return path

    def read_images(self) -> Images:
        path = self.location()
        status = path.stat()
        found = scan(path) if path.is_dir() else [status.st_size, status.st_mtime_ns]
        key = [str(path.resolve()), self.image_size, self.channels, found]
        try:
            folder = cached(self.cache, key, lambda new: self._build(path, new))
        except Unreadable as error:
            raise ValueError(f"data.path={self.path}: {error}; repair or remove it") from error
        rest = torch.load(folder / REST, weights_only=True)
        shape = (len(rest["labels"]), self.channels, self.image_size, self.image_size)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            pixels = torch.from_numpy(np.memmap(folder / PIXELS, np.uint8, mode="r", shape=shape))
        return Images(pixels, **rest)

    def _build(self, path: Path, folder: Path) -> None:
        """Write the decoded images, in the order in which they are read, and which of them are which."""
        names: list[Name] = []
        digest = hashlib.sha256()

        def pixels_of(image: tuple[Name, bytes]) -> np.ndarray:
            try:
                return decode(image[1], self.image_size, self.channels)
            except Exception as error:  # Pillow's decoders raise nearly any exception
                raise Unreadable("/".join(image[0]), error) from None

        screen = Console(stderr=True)
        images = iter(
            track(encoded_images(path), "decoding images", console=screen, disable=not screen.is_terminal)
        )
        with (folder / PIXELS).open("wb") as file, ThreadPoolExecutor(cores()) as threads:
            while some := list(islice(images, 32 * cores())):  # few encoded images wait in memory
                for (name, content), pixels in zip(some, threads.map(pixels_of, some), strict=True):
                    names.append(name)
                    digest.update(f"{'/'.join(name)} {len(content)}\n".encode())
                    digest.update(content)
                    file.write(pixels.tobytes())
        self._check(names)
        classes = {label: number for number, label in enumerate(sorted({label for _, label, _ in names}))}
        order = sorted(range(len(names)), key=names.__getitem__)
        rest = {
            "labels": torch.tensor([classes[label] for _, label, _ in names]),
            **{part: torch.tensor([row for row in order if names[row][0] == part]) for part in PARTS},
            "num_classes": len(classes),
            "fingerprint": digest.hexdigest(),
        }
        torch.save(rest, folder / REST)
        say(screen, f"decoded {len(names):,} images, kept for later runs in {folder.parents[1]}")

    def _check(self, names: list[Name]) -> None:
        """Refuse a layout unless training and test have images of the same classes, two or more."""
        train, test = ({printable(label) for part, label, _ in names if part == wanted} for wanted in PARTS)
        wrong = ""
        if not train or not test:
            wrong = f"it has no image for {'test' if train else 'train'}; {LAYOUT}"
        elif len(train) == 1:
            wrong = f"train has one class, {min(train)}; two are needed"
        elif train != test:
            wrong = f"{', '.join(sorted(train ^ test))} in only one of train and test; both need all classes"
        if wrong:
            raise ValueError(f"data.path={self.path}: {wrong}")
