"""MNIST, Fashion-MNIST, KMNIST, CIFAR-10 and CIFAR-100, read and downloaded by torchvision's classes of these names."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

import torch

from normexp.data.download import download, unpack
from normexp.data.images import ImageData
from normexp.data.splits import Split


@dataclass(kw_only=True, eq=False)
class TorchvisionImages(ImageData):
    """A data set in torchvision's folders below `root`; downloaded to there if it is absent.

    The standard test images are the test split.
    """

    root: str

    @abstractmethod
    def files(self, dataset: type) -> list[str]:
        """The files that hold the data, relative to `root`."""

    def read_images(self) -> tuple[Split, Split]:
        import torchvision.datasets  # seconds of imports

        dataset = getattr(torchvision.datasets, type(self).__name__)
        root = Path(self.root).expanduser()
        files = self.files(dataset)
        unpack(root, files)
        if not all((root / file).is_file() for file in files):
            download(dataset, root, files)
        try:
            train, test = dataset(root, train=True), dataset(root, train=False)
        except Exception as error:  # a damaged file fails in as many ways as there are parsers
            folder = (root / files[0]).parent.resolve()
            raise ValueError(
                f"data.root={self.root}: the files in {folder} are damaged ({' '.join(str(error).split())}); "
                "delete that folder and run again"
            ) from error
        self.num_classes = len(train.classes)
        return self._split(train), self._split(test)

    def _split(self, dataset) -> Split:
        pixels = torch.as_tensor(dataset.data)  # (N, H, W), or (N, H, W, 3) in colour
        images = pixels.unsqueeze(1) if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2).contiguous()
        return Split(images, torch.as_tensor(dataset.targets))


class MNIST(TorchvisionImages):
    """28x28 grey handwritten digits, 60,000 and 10,000 (LeCun et al. 1998)."""

    def files(self, dataset: type) -> list[str]:
        return [f"{dataset.__name__}/raw/{Path(archive).stem}" for archive, _ in dataset.resources]


class FashionMNIST(MNIST):
    """28x28 grey images of clothing in ten classes, 60,000 and 10,000 (Xiao et al. 2017)."""


class KMNIST(MNIST):
    """28x28 grey cursive Japanese characters in ten classes, 60,000 and 10,000 (Clanuwat et al. 2018)."""


class CIFAR10(TorchvisionImages):
    """32x32 colour photographs in ten classes, 50,000 and 10,000 (Krizhevsky 2009)."""

    def files(self, dataset: type) -> list[str]:
        names = [name for name, _ in dataset.train_list + dataset.test_list] + [dataset.meta["filename"]]
        return [f"{dataset.base_folder}/{name}" for name in names]


class CIFAR100(CIFAR10):
    """32x32 colour photographs in a hundred classes, 50,000 and 10,000 (Krizhevsky 2009)."""
