"""Image data sets: all images as bytes with their labels, validation cut from train, and a subset; and the set that
needs no file."""

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from normexp.data.base import DIGESTED, Count, DataModule, SplitSeed, digest
from normexp.data.orders import ClassPairedOrder, ShuffledOrder, stratified_order
from normexp.data.rows import PixelRows, Rows
from normexp.data.transforms import Augmentation, Border, Kind, Scaling, Tasks, count_values, moments
from normexp.format import pluralize

Tta = Literal["none", "flip"]  # test-time augmentation
TEST_SIZE = 360  # of the digits, a fifth


@dataclass(eq=False)
class Images:
    """All images of a data set, with the row numbers of its standard training and test images.

    Attributes:
        pixels: uint8 (N, C, H, W), in memory or mapped from a file.
        labels: int64 (N,).
        train, test: row numbers, int64, in the order of the data set.
        num_classes: number of classes.
        fingerprint: see `DataModule`.
    """

    pixels: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    num_classes: int
    fingerprint: str = ""


@dataclass(kw_only=True, eq=False)
class ImageData(DataModule):
    """Labeled images; batches are float32 (N, C, H, W). Test images are the standard ones; validation is cut from the
    training images.

    Pixels are scaled to [0, 1], then binarized, then normalized with the mean and standard deviation of every channel
    over the training split in use. `mean` and `std`, (C,) each, hold these numbers (0 and 1 without normalization).
    """

    kind = "image"
    max_pixel = 255  # the value of a white pixel from `read_images`

    split_seed: SplitSeed = 0  # cuts validation and the subset; the run's seed does not
    val_size: int | None = None  # None: a tenth of the training images
    # None: all that validation leaves; a larger subset contains every smaller one
    train_size: int | None = None
    samples_per_class: Count | None = None  # None: batches are drawn from all images alike
    binarize: bool = False  # pixel > 0.5
    normalize: bool = True
    augment: bool = False
    shift: int = 2  # pixels, when augmenting
    flip: bool = False  # mirror, when augmenting
    border: Border = "black"  # of shifted images
    tta: Tta = "none"  # what evaluation averages over
    tasks: Kind | None = None  # a sequence of tasks instead of one: see `Tasks`
    task_batches: Count = 500  # of each task

    mean: Tensor = field(init=False, repr=False)
    std: Tensor = field(init=False, repr=False)
    _input_shape: tuple[int, ...] = field(default=(), init=False, repr=False)

    @abstractmethod
    def read_images(self) -> Images:
        """All images, with pixels in 0..max_pixel."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self._input_shape

    def read(self) -> dict[str, Rows]:
        images = self.read_images()
        self.num_classes, self.fingerprint = images.num_classes, images.fingerprint
        self._input_shape = tuple(images.pixels.shape[1:])
        val_size, train_size = self._sizes(len(images.train))
        side = min(images.pixels.shape[2:])
        if self.augment and not 0 <= self.shift < side:
            raise ValueError(f"data.shift={self.shift}: must lie in 0..{side - 1}, within the image")
        if self.tta == "flip" and self.tasks == "permuted":
            raise ValueError("data.tta=flip: data.tasks=permuted leaves no mirror image; drop one")

        order = images.train[stratified_order(images.labels[images.train], self.split_seed)]
        indices = {
            "train": order[val_size : val_size + train_size],
            "val": order[:val_size],
            "test": images.test,
        }
        self.test_set = digest(images.pixels[images.test[:DIGESTED]], images.labels[images.test])
        scaling = Scaling(self.max_pixel, binarize=self.binarize)
        channels = images.pixels.shape[1]
        self.mean, self.std = torch.zeros(channels), torch.ones(channels)
        if self.normalize:
            self.mean, self.std = moments(count_values(images.pixels, indices["train"]), scaling)
            scaling = Scaling(self.max_pixel, binarize=self.binarize, mean=self.mean, std=self.std)
        return {
            split: PixelRows(images.pixels, rows, images.labels[rows], scaling)
            for split, rows in indices.items()
        }

    def make_rows(self, split: str, device: torch.device, *, training: bool) -> Rows:
        return self.splits[split].on(device)  # type: ignore[attr-defined]

    def probe_batch(self, n: int) -> tuple[Tensor, Tensor]:
        self.load()
        # Only these rows become numbers; the rest of the split may never be used.
        return self.splits["val"].take(slice(n))

    def _sizes(self, available: int) -> tuple[int, int]:
        """Sizes of the validation and the training split, cut from `available` standard training images."""
        val_size = max(1, available // 10) if self.val_size is None else self.val_size
        if not 1 <= val_size < available:
            raise ValueError(
                f"data.val_size={val_size}: {available} training images can give 1..{available - 1} to validation"
            )
        train_size = available - val_size if self.train_size is None else self.train_size
        if not 1 <= train_size <= available - val_size:
            raise ValueError(
                f"data.train_size={train_size}: validation leaves {pluralize(available - val_size, 'image')}; "
                f"choose 1..{available - val_size}, or null for all"
            )
        return val_size, train_size

    def training_order(self, train: Rows) -> ShuffledOrder:
        if self.samples_per_class is None:
            return ShuffledOrder(len(train.y), self.batch_size, self.seed)
        return ClassPairedOrder(train.y, self.samples_per_class, self.batch_size, self.seed)

    @property
    def tasks_of_run(self) -> Tasks | None:
        if self.tasks is None:
            return None
        return Tasks(self.tasks, self.task_batches, self.split_seed, self.num_classes)

    def augmentation(self, device: torch.device) -> Augmentation | None:
        if not self.augment:
            return None
        black = (-self.mean / self.std).view(-1, 1, 1).to(device)  # a pixel of 0, normalized
        return Augmentation(shift=self.shift, flip=self.flip, black=black, seed=self.seed, border=self.border)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(self.splits[name].y):,} {name}" for name in ("train", "val", "test"))
        shape = "x".join(str(side) for side in self.input_shape)
        tasks = f", {self.tasks} anew every {pluralize(self.task_batches, 'batch')}" if self.tasks else ""
        return f"{type(self).__name__}: {sizes} images of {shape}, {self.num_classes} classes{tasks}"


class Digits(ImageData):
    """8x8 gray images of ten digits (UCI, Alpaydin & Kaynak 1998); 360 stratified test images. No download.

    The set has no standard splits. `split_seed` cuts all three, so another seed has other test images.
    """

    standard, max_pixel = True, 16

    def read_images(self) -> Images:
        with np.load(Path(__file__).with_name("digits.npz")) as digits:  # digits.md has source and license
            images = torch.from_numpy(digits["images"]).unsqueeze(1)  # (1797, 1, 8, 8)
            labels = torch.from_numpy(digits["labels"]).long()
        order = stratified_order(labels, self.split_seed)
        return Images(images, labels, train=order[TEST_SIZE:], test=order[:TEST_SIZE], num_classes=10)
