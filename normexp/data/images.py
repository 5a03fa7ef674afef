"""What every image data set shares: validation cut from train, subset, binarizing, normalizing, augmentation."""

from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from normexp.data.augment import Augmentation
from normexp.data.base import DataModule
from normexp.data.order import ClassPairedOrder, ShuffledOrder
from normexp.data.splits import Split, digest, stratified_order
from normexp.data.stored_images import Images


@dataclass(kw_only=True, eq=False)
class ImageData(DataModule):
    """Labelled images as float32 (N, C, H, W). Test images are the data set's own; validation is cut from the others.

    Pixels are scaled to [0, 1], then binarized, then normalized with mean and standard deviation of every channel
    over the training split in use. `mean` and `std`, (C,) each, hold what was subtracted and divided by (0 and 1
    without normalization).
    """

    kind = "image"
    max_pixel = 255  # the value of a white pixel in what `read_images` gives

    split_seed: int = 0  # cuts validation and the subset from the training images, whatever the run's seed
    val_size: int | None = None  # None: a tenth of the training images
    train_size: int | None = None  # None: all that validation leaves; smaller subsets lie within larger ones
    samples_per_class: int | None = None  # None: batches are drawn from all classes alike
    binarize: bool = False  # pixel > 0.5
    normalize: bool = True
    augment: bool = False
    shift: int = 2  # pixels, when augmenting
    flip: bool = False  # mirror, when augmenting

    mean: Tensor = field(init=False, repr=False)
    std: Tensor = field(init=False, repr=False)

    @abstractmethod
    def read_images(self) -> Images:
        """All images, with pixels in 0..max_pixel."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.splits["train"].x.shape[1:])

    def read(self) -> dict[str, Split]:
        images = self.read_images()
        self.num_classes, self.fingerprint = images.num_classes, images.fingerprint
        val_size, train_size = self._sizes(len(images.train))
        side = min(images.pixels.shape[2:])
        if self.augment and not 0 <= self.shift < side:
            raise ValueError(f"data.shift={self.shift}: must lie in 0..{side - 1}, within the image")

        order = images.train[stratified_order(images.labels[images.train], self.split_seed)]
        rows = {
            "train": order[val_size : val_size + train_size],
            "val": order[:val_size],
            "test": images.test,
        }
        splits = {name: Split(images.pixels[rows], images.labels[rows]) for name, rows in rows.items()}
        self.test_set = digest(splits["test"])
        scaled = {name: self._scale(split.x) for name, split in splits.items()}
        self.mean, self.std = self._moments(scaled["train"])
        return {
            name: Split(x.sub_(self.mean[:, None, None]).div_(self.std[:, None, None]), splits[name].y)
            for name, x in scaled.items()
        }

    def _sizes(self, available: int) -> tuple[int, int]:
        """Sizes of the validation and the training split, of the `available` standard training images."""
        val_size = max(1, available // 10) if self.val_size is None else self.val_size
        if not 1 <= val_size < available:
            raise ValueError(
                f"data.val_size={val_size}: {available} training images can give 1..{available - 1} to validation"
            )
        train_size = available - val_size if self.train_size is None else self.train_size
        if not 1 <= train_size <= available - val_size:
            raise ValueError(
                f"data.train_size={train_size}: validation leaves {available - val_size} images; "
                f"choose 1..{available - val_size}, or null for all"
            )
        return val_size, train_size

    def _scale(self, pixels: Tensor) -> Tensor:
        x = pixels.float().div_(self.max_pixel)  # a new tensor, changed in place from here on
        return x.gt(0.5).float() if self.binarize else x

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        channels = x.shape[1]
        if not self.normalize:
            return torch.zeros(channels), torch.ones(channels)
        std, mean = torch.std_mean(x, dim=(0, 2, 3), correction=0)
        return mean, std.where(std > 0, 1.0)  # a constant channel stays constant

    def rows(self, split: str, device: torch.device) -> Split:
        return Split(*(tensor.to(device) for tensor in self.splits[split]))

    def training_order(self, train: Split) -> ShuffledOrder:
        if self.samples_per_class is None:
            return ShuffledOrder(len(train.y), self.batch_size, self.seed)
        return ClassPairedOrder(train.y, self.samples_per_class, self.batch_size, self.seed)

    def augmentation(self, device: torch.device) -> Augmentation | None:
        if not self.augment:
            return None
        black = (-self.mean / self.std).view(-1, 1, 1).to(device)  # a pixel of 0, normalized
        return Augmentation(shift=self.shift, flip=self.flip, black=black, seed=self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(self.splits[name].y):,} {name}" for name in ("train", "val", "test"))
        shape = "x".join(str(side) for side in self.input_shape)
        return f"{type(self).__name__}: {sizes} images of {shape}, {self.num_classes} classes"
