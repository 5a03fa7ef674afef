"""Standard image data sets: the digits of scikit-learn, MNIST and CIFAR in torchvision's files, CIFAR-10 as JPEGs."""

import errno
import gzip
import hashlib
import os
import socket
import tempfile
from abc import abstractmethod
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from torch import Tensor

from normexp.data.base import AbsentData
from normexp.data.cache import cached, size_and_time
from normexp.data.image_files import ImageFolder
from normexp.data.images import ImageData, Images
from normexp.format import printable

CHECKOUT = Path(__file__).parents[2]
ARCHIVE = "cifar10_jpeg.tar.gz"
# sha256 of all labels and pixels. Elsewhere nobody could tell another set's files by their names.
ORIGINALS = {"MNIST": "1de3e233ce276342e72cd52139e599c3fa687ff8a124b3640f943788ea443482"}
MAX_BYTES = 2**31  # of one unpacked file; the largest has 47 MB
TIMEOUT = 30.0  # seconds without an answer; a firewall that drops packets would otherwise hang a run forever


def search_paths() -> list[Path]:
    """The folders searched unless the user names one: $NORMEXP_DATA, `data` in the working directory, and `shared/data`
    beside the checkout."""
    named = [Path(os.environ["NORMEXP_DATA"]).expanduser()] if os.environ.get("NORMEXP_DATA") else []
    return [*named, Path("data"), CHECKOUT.parent / "shared" / "data"]


@dataclass(kw_only=True, eq=False)
class TorchvisionImages(ImageData):
    """A data set in torchvision's folders below `root`, read by its class of the same name. If it is absent, it is
    downloaded there.

    The standard test images are the test split.
    """

    root: str | None = None  # None: the first of the standard places that has it
    cache: str | None = None  # None: normexp in the user's cache folder

    @abstractmethod
    def files(self, dataset: Any) -> list[str]:
        """The files that hold the data, relative to `root`."""

    def read_images(self) -> Images:
        import torchvision.datasets  # seconds of imports

        dataset = getattr(torchvision.datasets, type(self).__name__)
        files = self.files(dataset)
        places = search_paths() if self.root is None else [Path(self.root).expanduser()]
        found = self._find(places, files)
        if found is None:
            download(dataset, places[0], files)
            found = [places[0] / file for file in files]
        status = [(path.name, *size_and_time(path)) for path in found]
        source = str(found[0].parent.resolve())
        name = dataset.__name__.lower()
        folder = cached(self.cache, name, source, status, lambda new: self._build(dataset, files, found, new))
        return Images.read(folder)

    def _find(self, places: list[Path], files: list[str]) -> list[Path] | None:
        """The path of each file, plain or gzipped: in torchvision's layout, or all in one folder named like the set."""
        short = [f"{type(self).__name__.lower()}/{Path(file).name}" for file in files]
        for place in places:
            for names in (files, short):
                paths = [place / name for name in names]
                found = [path if path.is_file() else path.with_name(f"{path.name}.gz") for path in paths]
                if all(path.is_file() for path in found):
                    return found
        return None

    def _build(self, dataset: Any, files: list[str], found: list[Path], folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as root:
            try:
                _link_or_unpack(found, Path(root), files)
                images = _images(dataset(root, train=True), dataset(root, train=False))
            except Exception as error:  # each parser fails in its own way on a damaged file
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise  # no room in the cache
                where, reason = found[0].parent.resolve(), printable(" ".join(str(error).split()))
                remedy = "delete that folder and run again"
                raise ValueError(
                    f"data.root={self.root}: the files in {where} are damaged ({reason}); {remedy}"
                ) from error
        content = hashlib.sha256(images.labels.numpy().tobytes())
        content.update(images.pixels.contiguous().numpy().tobytes())
        original, where = ORIGINALS.get(dataset.__name__), found[0].parent.resolve()
        if original is None and content.hexdigest() in ORIGINALS.values():
            raise ValueError(
                f"data.root={self.root}: {where} holds MNIST; put the files of {dataset.__name__} there"
            )
        if original not in (None, content.hexdigest()):
            images.fingerprint = content.hexdigest()
            said = f"{where}: not the original {dataset.__name__}; runs on it have an identity of their own"
            Console(stderr=True).print(printable(said), highlight=False, markup=False, soft_wrap=True)
        images.write(folder)


def _link_or_unpack(found: list[Path], root: Path, files: list[str]) -> None:
    """Put `files` below `root`: link to the files that were found, or unpack them."""
    for path, file in zip(found, files, strict=True):
        target = root / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".gz":
            target.symlink_to(path.resolve())
            continue
        with gzip.open(path) as packed, open(target, "wb") as plain:
            while content := packed.read(2**20):
                if plain.tell() > MAX_BYTES:  # a few bytes can unpack to a full disk
                    raise OSError(f"{path.name} unpacks to more than {MAX_BYTES // 2**30} GiB")
                plain.write(content)


def _images(train, test) -> Images:
    labels = torch.cat([torch.as_tensor(part.targets) for part in (train, test)])
    pixels = [_pixels(part) for part in (train, test)]
    for part, images in zip((train, test), pixels, strict=True):
        if len(part.targets) != len(images):
            raise ValueError(f"{len(part.targets):,} labels for {len(images):,} images")
    wrong = ((labels < 0) | (labels >= len(train.classes))).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(f"label {labels[wrong[0]]} of image {wrong[0]}, of {len(train.classes)} classes")
    train_rows, test_rows = torch.arange(len(labels)).split([len(part) for part in pixels])
    return Images(torch.cat(pixels), labels, train_rows, test_rows, len(train.classes))


def _pixels(dataset) -> Tensor:
    pixels = torch.as_tensor(dataset.data)  # (N, H, W), or (N, H, W, 3) in color
    return pixels.unsqueeze(1) if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)


def download(dataset: Any, root: Path, files: list[str]) -> None:
    """Let torchvision download its `dataset` to `root`. Raises ValueError with one line."""
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        dataset(root, download=True)
    except (RuntimeError, OSError, HTTPException) as error:  # URLError is an OSError
        folder = (root / files[0]).parent.resolve()
        names = ", ".join(Path(file).name for file in files)
        reason = printable(
            (str(error).strip() or type(error).__name__).splitlines()[-1]
        )  # of the last mirror
        raise AbsentData(
            f"data.root={root}: no {dataset.__name__} in {folder} (expected {names}), and it cannot be downloaded "
            f"({reason}); put the files there, name their folder with data.root=..., "
            "or take data=digits, which needs no download"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)


class MNIST(TorchvisionImages):
    """28x28 gray handwritten digits, 60,000 and 10,000 (LeCun et al. 1998). The fingerprint tells of other content."""

    def files(self, dataset: Any) -> list[str]:
        return [f"{dataset.__name__}/raw/{Path(archive).stem}" for archive, _ in dataset.resources]


class FashionMNIST(MNIST):
    """28x28 gray images of clothing in ten classes, 60,000 and 10,000 (Xiao et al. 2017)."""


class KMNIST(MNIST):
    """28x28 gray cursive Japanese characters in ten classes, 60,000 and 10,000 (Clanuwat et al. 2018)."""


class CIFAR10(TorchvisionImages):
    """32x32 color photographs in ten classes, 50,000 and 10,000 (Krizhevsky 2009)."""

    def files(self, dataset: Any) -> list[str]:
        names = [name for name, _ in dataset.train_list + dataset.test_list] + [dataset.meta["filename"]]
        return [f"{dataset.base_folder}/{name}" for name in names]


class CIFAR100(CIFAR10):
    """32x32 color photographs in a hundred classes, 50,000 and 10,000 (Krizhevsky 2009)."""


@dataclass(kw_only=True, eq=False)
class CIFAR10JPEG(ImageFolder):
    """The 60,000 photographs of CIFAR-10 (Krizhevsky 2009), 32x32 in color, each a JPEG: {train,test}/CLASS/*.jpg.

    Classes are numbered by name, as in CIFAR-10. JPEG loses detail, so pixels and accuracies differ a little from those
    of CIFAR-10.
    """

    path: str | None = None  # of the archive; None: search the places of standard data sets
    image_size: int = field(default=32, init=False)
    channels: Literal[1, 3] = field(default=3, init=False)

    def place(self) -> Path:
        places = [place / ARCHIVE for place in search_paths()]
        if self.path is not None:
            places = [Path(self.path).expanduser()]
        for place in places:
            if place.is_file():
                return place
        raise AbsentData(
            f"data.path={self.path or 'null'}: there is no {' and no '.join(map(str, places))}; "
            f"name {ARCHIVE} with data.path=FILE, or take data=cifar10"
        )
