"""MNIST, Fashion-MNIST, KMNIST, CIFAR-10 and CIFAR-100, read and downloaded by torchvision's classes of these names."""

import tempfile
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from normexp.data import stored_images
from normexp.data.cache import cached
from normexp.data.download import download, linked
from normexp.data.images import ImageData
from normexp.data.places import standard_places
from normexp.data.stored_images import Images


@dataclass(kw_only=True, eq=False)
class TorchvisionImages(ImageData):
    """A data set in torchvision's folders below `root`. If it is absent, it is downloaded there.

    The standard test images are the test split.
    """

    root: str | None = None  # None: the first of the standard places that has it
    cache: str | None = None  # None: normexp in the user's cache folder

    @abstractmethod
    def files(self, dataset: type) -> list[str]:
        """The files that hold the data, relative to `root`."""

    def read_images(self) -> Images:
        import torchvision.datasets  # seconds of imports

        dataset = getattr(torchvision.datasets, type(self).__name__)
        files = self.files(dataset)
        found = self._find(files) or self._download(dataset, files)
        status = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found]
        source = str(found[0].parent.resolve())
        name = dataset.__name__.lower()
        folder = cached(self.cache, name, source, status, lambda new: self._build(dataset, files, found, new))
        return stored_images.read(folder)

    def _places(self) -> list[Path]:
        return standard_places() if self.root is None else [Path(self.root).expanduser()]

    def _find(self, files: list[str]) -> list[Path] | None:
        """The path of each file, plain or gzipped: in torchvision's layout, or all in one folder named like the set."""
        for place in self._places():
            short = [f"{type(self).__name__.lower()}/{Path(file).name}" for file in files]
            for names in (files, short):
                packed = [place / f"{name}.gz" for name in names]
                paths = [place / name for name in names]
                found = [path if path.is_file() else gz for path, gz in zip(paths, packed, strict=True)]
                if all(path.is_file() for path in found):
                    return found
        return None

    def _download(self, dataset: type, files: list[str]) -> list[Path]:
        root = self._places()[0]
        download(dataset, root, files)
        return [root / file for file in files]

    def _build(self, dataset: type, files: list[str], found: list[Path], folder: Path) -> None:
        with tempfile.TemporaryDirectory() as root:
            try:
                linked(found, Path(root), files)
                images = _images(dataset(root, train=True), dataset(root, train=False))
            except Exception as error:  # each parser fails in its own way on a damaged file
                where = found[0].parent.resolve()
                raise ValueError(
                    f"data.root={self.root}: the files in {where} are damaged ({' '.join(str(error).split())}); "
                    "delete that folder and run again"
                ) from error
        stored_images.write(folder, images)


def _images(train, test) -> Images:
    labels = [torch.as_tensor(part.targets) for part in (train, test)]
    pixels = [_pixels(part) for part in (train, test)]
    for part, own in zip(pixels, labels, strict=True):
        if len(part) != len(own):
            raise ValueError(f"{len(own):,} labels for {len(part):,} images")
    rows = torch.arange(sum(map(len, labels)))
    images = Images(
        pixels=torch.cat(pixels),
        labels=torch.cat(labels),
        train=rows[: len(labels[0])],
        test=rows[len(labels[0]) :],
        num_classes=len(train.classes),
    )
    images.check()
    return images


def _pixels(dataset) -> Tensor:
    pixels = torch.as_tensor(dataset.data)  # (N, H, W), or (N, H, W, 3) in color
    return pixels.unsqueeze(1) if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)


class MNIST(TorchvisionImages):
    """28x28 gray handwritten digits, 60,000 and 10,000 (LeCun et al. 1998)."""

    def files(self, dataset: type) -> list[str]:
        return [f"{dataset.__name__}/raw/{Path(archive).stem}" for archive, _ in dataset.resources]


class FashionMNIST(MNIST):
    """28x28 gray images of clothing in ten classes, 60,000 and 10,000 (Xiao et al. 2017)."""


class KMNIST(MNIST):
    """28x28 gray cursive Japanese characters in ten classes, 60,000 and 10,000 (Clanuwat et al. 2018)."""


class CIFAR10(TorchvisionImages):
    """32x32 color photographs in ten classes, 50,000 and 10,000 (Krizhevsky 2009)."""

    def files(self, dataset: type) -> list[str]:
        names = [name for name, _ in dataset.train_list + dataset.test_list] + [dataset.meta["filename"]]
        return [f"{dataset.base_folder}/{name}" for name in names]


class CIFAR100(CIFAR10):
    """32x32 color photographs in a hundred classes, 50,000 and 10,000 (Krizhevsky 2009)."""
