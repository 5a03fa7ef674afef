"""Standard image data sets: MNIST and CIFAR in torchvision's files, CIFAR-10 as JPEGs."""

import gzip
import math
import os
import shutil
import socket
import struct
from abc import abstractmethod
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from normexp.data.image_files import ImageFolder
from normexp.data.images import ImageData, Images
from normexp.format import printable

CHECKOUT = Path(__file__).parents[2]
ARCHIVE = "cifar10_jpeg.tar.gz"
IDX = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
)  # fmt: skip
TIMEOUT = 30.0  # seconds without an answer; a firewall that drops packets would otherwise hang a run forever


def search_paths() -> list[Path]:
    """The folders searched unless the user names one: $NORMEXP_DATA, `data` in the working directory, and `shared/data`
    beside the checkout."""
    named = [Path(os.environ["NORMEXP_DATA"]).expanduser()] if os.environ.get("NORMEXP_DATA") else []
    return [*named, Path("data"), CHECKOUT.parent / "shared" / "data"]


@dataclass(kw_only=True, eq=False)
class TorchvisionImages(ImageData):
    """A data set in torchvision's folders below `root`. If it is absent, torchvision downloads it there.

    The standard test images are the test split.
    """

    standard, classes = True, 10

    root: str | None = None  # None: the first of the standard places that has it

    @property
    def dataset(self) -> Any:
        """torchvision's class."""
        import torchvision.datasets  # seconds of imports

        return getattr(torchvision.datasets, type(self).__name__)

    @abstractmethod
    def files(self, folder: Path) -> list[Path]:
        """The files that hold the data below a place."""

    @abstractmethod
    def read_part(self, folder: Path, *, train: bool) -> tuple[Tensor, Tensor]:
        """Pixels, uint8 (N, C, H, W), and labels (N,) of the training or the test images."""

    def read_images(self) -> Images:
        folders = search_paths() if self.root is None else [Path(self.root).expanduser()]
        found = (folder for folder in folders if all(path.is_file() for path in self.files(folder)))
        if (folder := next(found, None)) is None:
            folder = folders[0]
            download(self.dataset, folder, self.files(folder))
        try:
            parts = [self.read_part(folder, train=train) for train in (True, False)]
            labels = torch.cat([y for _, y in parts])
            if any(len(x) != len(y) for x, y in parts):
                raise ValueError("as many labels as images are needed")
            if not 0 <= labels.min() <= labels.max() < self.classes:
                raise ValueError(f"labels are 0..{self.classes - 1}")
        except Exception as error:  # each parser fails in its own way on a damaged file
            where, reason = self.files(folder)[0].parent.resolve(), printable(" ".join(str(error).split()))
            remedy = "delete that folder and run again"
            raise ValueError(
                f"data.root={self.root}: the files in {where} are damaged ({reason}); {remedy}"
            ) from error
        train, test = torch.arange(len(labels)).split([len(y) for _, y in parts])
        return Images(torch.cat([x for x, _ in parts]).contiguous(), labels, train, test, self.classes)


def download(dataset: Any, root: Path, files: list[Path]) -> None:
    """Let torchvision download its `dataset` to `root`, or leave nothing there. Raises ValueError with one line."""
    folder, timeout = files[0].parent, socket.getdefaulttimeout()
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    socket.setdefaulttimeout(TIMEOUT)
    try:
        dataset(root, download=True)
    except BaseException as error:
        for path in made[-1:]:
            shutil.rmtree(path, ignore_errors=True)
        if not isinstance(error, RuntimeError | OSError | HTTPException):  # URLError is an OSError
            raise
        raise ValueError(
            f"data.root={root}: no {dataset.__name__} in {folder.resolve()} (expected "
            f"{', '.join(path.name for path in files)}), and it cannot be downloaded; put the "
            "files there, name their folder with data.root=..., or take data=digits, which needs no download"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)


def plain_or_packed(path: Path) -> Path:
    """The file, or the gzipped one beside it."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.is_file() and not path.is_file() else path


def read_idx(path: Path) -> Tensor:
    """The bytes of an IDX file, plain or gzipped, in their shape."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    shape = struct.unpack_from(f">{content[3]}I", content, 4)
    values = np.frombuffer(content, np.uint8, math.prod(shape), 4 + 4 * len(shape))
    return torch.from_numpy(values.copy()).view(shape)


class MNIST(TorchvisionImages):
    """28x28 gray handwritten digits, 60,000 and 10,000 (LeCun et al. 1998)."""

    def files(self, folder: Path) -> list[Path]:
        """IDX files, plain or gzipped: in torchvision's folder, or in one named like the set."""
        name = type(self).__name__
        folders = (folder / name / "raw", folder / name.lower())
        folder = next((folder for folder in folders if folder.is_dir()), folders[0])
        return [plain_or_packed(folder / file) for file in IDX]

    def read_part(self, folder: Path, *, train: bool) -> tuple[Tensor, Tensor]:
        files = self.files(folder)
        pixels, labels = map(read_idx, files[:2] if train else files[2:])
        return pixels.view(-1, 1, 28, 28), labels.long()


class FashionMNIST(MNIST):
    """28x28 gray images of clothing in ten classes, 60,000 and 10,000 (Xiao et al. 2017)."""


class KMNIST(MNIST):
    """28x28 gray cursive Japanese characters in ten classes, 60,000 and 10,000 (Clanuwat et al. 2018)."""


class CIFAR10(TorchvisionImages):
    """32x32 color photographs in ten classes, 50,000 and 10,000 (Krizhevsky 2009)."""

    def files(self, folder: Path) -> list[Path]:
        dataset = self.dataset
        names = [name for name, _ in dataset.train_list + dataset.test_list] + [dataset.meta["filename"]]
        return [folder / dataset.base_folder / name for name in names]

    def read_part(self, folder: Path, *, train: bool) -> tuple[Tensor, Tensor]:
        part = self.dataset(folder, train=train)
        return torch.from_numpy(part.data).permute(0, 3, 1, 2), torch.as_tensor(part.targets)


class CIFAR100(CIFAR10):
    """32x32 color photographs in a hundred classes, 50,000 and 10,000 (Krizhevsky 2009)."""

    classes = 100


@dataclass(kw_only=True, eq=False)
class CIFAR10JPEG(ImageFolder):
    """The 60,000 photographs of CIFAR-10 (Krizhevsky 2009), 32x32 in color, each a JPEG: {train,test}/CLASS/*.jpg.

    Classes are numbered by name, as in CIFAR-10. JPEG loses detail, so pixels and accuracies differ a little from those
    of CIFAR-10.
    """

    path: str | None = None  # of the archive; None: search the places of standard data sets
    image_size: int = field(default=32, init=False)
    channels: Literal[1, 3] = field(default=3, init=False)

    def location(self) -> Path:
        archives = [folder / ARCHIVE for folder in search_paths()]
        if self.path is not None:
            archives = [Path(self.path).expanduser()]
        for archive in archives:
            if archive.is_file():
                return archive
        raise ValueError(
            f"data.path={self.path or 'null'}: there is no {' and no '.join(map(str, archives))}; "
            f"name {ARCHIVE} with data.path=FILE, or take data=cifar10"
        )
