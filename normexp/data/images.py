"""Image data sets: all images as bytes with their labels, then validation cut from train, subset, bytes to normalized
numbers, light augmentation of whole batches, a sequence of tasks; and the smallest set, which needs no file."""

import json
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.data.base import DIGESTED, DataModule, digest
from normexp.data.cache import MappedFile
from normexp.data.rows import (
    Batch,
    ClassPairedOrder,
    PixelRows,
    Rows,
    ShuffledOrder,
    keyed_generator,
    stratified_order,
)
from normexp.format import require_choice

PIXELS, LABELS, ABOUT = "pixels.u8", "labels.npz", "about.json"
CHUNK_BYTES = 2**24  # bytes that are counted at once
Kind = Literal["permuted", "relabeled"]  # of a sequence of tasks
Border = Literal["black", "reflect"]
Tta = Literal["none", "flip"]  # test-time augmentation
TEST_SIZE = 360  # of the digits, a fifth


class Scaling:
    """Pixels scaled to [0, 1], then binarized, then normalized with the mean and standard deviation of each channel.

    Each pixel is scaled by itself, so a batch has the same bits as the whole split, on every device.

    Args:
        max_pixel: the value of a white pixel.
        binarize: pixel > 0.5 instead of the pixel.
        mean, std: (C,) each, on the device; None: not normalized.
    """

    def __init__(
        self, max_pixel: int, *, binarize: bool, mean: Tensor | None = None, std: Tensor | None = None
    ) -> None:
        self.max_pixel, self.binarize = max_pixel, binarize
        self.mean, self.std = mean, std
        like = torch.ones(()) if mean is None else mean
        # A tensor, because to divide by a number CUDA multiplies by 1 / max_pixel, which rounds differently.
        self.white = torch.full((), float(max_pixel), device=like.device)

    def to(self, device: torch.device) -> "Scaling":
        moved = Scaling(self.max_pixel, binarize=self.binarize)
        moved.white = self.white.to(device)
        if self.mean is not None and self.std is not None:
            moved.mean, moved.std = self.mean.to(device), self.std.to(device)
        return moved

    def __call__(self, pixels: Tensor) -> Tensor:
        """Convert uint8 (N, C, H, W) to float32 (N, C, H, W)."""
        x = pixels.float().div_(self.white)
        if self.binarize:
            x = x.gt(0.5).float()
        if self.mean is not None and self.std is not None:
            x.sub_(self.mean[:, None, None]).div_(self.std[:, None, None])
        return x


def count_values(pixels: Tensor, indices: Tensor) -> Tensor:
    """How often each channel of the images `indices` has each value: int64 (C, 256)."""
    channels = pixels.shape[1]
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    in_file_order = indices.sort().values
    for chunk in in_file_order.split(max(1, CHUNK_BYTES // pixels[0].numel())):
        chosen = pixels.index_select(0, chunk)
        for channel in range(channels):
            counts[channel] += torch.bincount(chosen[:, channel].flatten(), minlength=256)
    return counts


def moments(counts: Tensor, scaling: Scaling) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (divided by n) of each channel, float32 (C,), computed in float64.

    Counts make them exact for any number of threads. A constant channel gets the deviation 1, so it stays constant.
    """
    values = scaling(torch.arange(256, dtype=torch.uint8).view(-1, 1, 1, 1)).flatten().double()  # (256,)
    share = counts.double() / counts.sum(1, keepdim=True)
    mean = share @ values
    std = (share * (values - mean[:, None]).square()).sum(1).sqrt()
    constant = (counts > 0).sum(1) == 1
    return mean.float(), std.masked_fill(constant, 1.0).float()


class Augmentation:
    """Shift each image by up to `shift` pixels in both directions, then leave or mirror it.

    Args:
        shift: largest shift in pixels.
        flip: mirror left and right with probability one half.
        black: value of a black pixel per channel, (C, 1, 1), on the device of the images.
        seed: the run's seed. Draws depend on (seed, epoch, batch, place in the batch) alone.
        border: `black` pixels, or those inside the edge in reverse order (`reflect`).
    """

    def __init__(self, *, shift: int, flip: bool, black: Tensor, seed: int, border: Border = "black") -> None:
        self.shift = shift
        self.flip = flip
        self.black = black
        self.seed = seed
        self.border = border

    def draw(self, epoch: int, shape: tuple[int, int]) -> Tensor:
        """Draws of a whole epoch, (num_batches, batch_size, 3) on the CPU: rows down, columns right, mirrored."""
        generator = keyed_generator("augmentation", self.seed, epoch)
        shifts = torch.randint(-self.shift, self.shift + 1, (*shape, 2), generator=generator)
        mirrored = torch.randint(2, (*shape, 1), generator=generator) * self.flip
        return torch.cat([shifts, mirrored], dim=-1)

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        """Augmented copy of `images` (B, C, H, W); `draws` is (B, 3)."""
        batch, channels, height, width = images.shape
        border = self.shift
        if self.border == "reflect":
            padded = F.pad(images, 4 * (border,), mode="reflect")
        else:
            padded = self.black.expand(batch, channels, height + 2 * border, width + 2 * border).clone()
            padded[:, :, border : border + height, border : border + width] = images

        down, right, mirrored = draws.unbind(1)  # (B,) each
        # The row and column of the padded image that each pixel of the result comes from.
        rows = torch.arange(height, device=images.device) + border - down[:, None]  # (B, H)
        columns = torch.arange(width, device=images.device)
        columns = torch.where(mirrored[:, None] == 1, columns.flip(0), columns)  # (B, W)
        columns = columns + border - right[:, None]
        source = rows[:, :, None] * padded.shape[3] + columns[:, None, :]  # (B, H, W), flattened padded image
        source = source.view(batch, 1, -1).expand(-1, channels, -1)  # (B, C, H * W)
        return padded.flatten(2).gather(2, source).view_as(images)


@dataclass(eq=False)
class Images:
    """All images of a data set, with the row numbers of its standard training and test images.

    Attributes:
        pixels: uint8 (N, C, H, W), in memory or mapped from a file.
        labels: int64 (N,).
        train, test: row numbers, int64, in the order of the data set.
        num_classes: number of classes.
        fingerprint: see `DataModule`.
        file: the file that the pixels are mapped from, or None.
    """

    pixels: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    num_classes: int
    fingerprint: str = ""
    file: MappedFile | None = None

    def write(self, folder: Path) -> None:
        """Write them into a folder: a file of pixels, unless they are mapped from it, and files of everything else."""
        if self.file is None:
            self.pixels.contiguous().numpy().tofile(folder / PIXELS)
        np.savez(folder / LABELS, **{n: getattr(self, n).numpy() for n in ("labels", "train", "test")})
        about = {
            "shape": list(self.pixels.shape),
            "num_classes": self.num_classes,
            "fingerprint": self.fingerprint,
        }
        (folder / ABOUT).write_text(json.dumps(about))

    @classmethod
    def read(cls, folder: Path) -> "Images":
        """The images of a folder, mapped."""
        about = json.loads((folder / ABOUT).read_text())
        with np.load(folder / LABELS, allow_pickle=False) as arrays:
            rows: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        file = MappedFile(folder / PIXELS, about.pop("shape"))
        return cls(file.tensor, **rows, **about, file=file)


class Tasks:
    """Changes a batch (N, C, H, W), (N,) into that of its task. Task 0 has the data as they are, and each later task a
    random order of its own:

    - permuted: x[:, :, p], where p puts the H W places of an image in another order, the same in every channel
      (Goodfellow et al. 2013, arXiv:1312.6211)
    - relabeled: p[y], where p puts the classes in another order

    All tasks are equally hard for a network that does not know places, such as an MLP. So what it loses from one to
    the next is plasticity (Lyle et al. 2023, arXiv:2303.01486; Dohare et al. 2024).

    Args:
        batches: number of training batches of each task.
        seed: of the orders; every run with it has the same tasks.
    """

    def __init__(self, kind: Kind, batches: int, seed: int, num_classes: int) -> None:
        if batches < 1:
            raise ValueError(f"data.task_batches={batches}: a task has at least one training batch")
        self.kind, self.batches, self.seed, self.num_classes = kind, batches, seed, num_classes

    def __call__(self, batch: Batch, number: int) -> Batch:
        """The batch, as that of the task to which training batch `number` of the run, from 0, belongs."""
        x, y = batch
        if (task := number // self.batches) == 0:
            return batch
        if self.kind == "relabeled":
            return x, new_order(self.seed, task, self.num_classes).to(y.device)[y]
        places = x.flatten(2)  # (N, C, H W)
        return places[:, :, new_order(self.seed, task, places.shape[2]).to(x.device)].view_as(x), y


@lru_cache(maxsize=16)
def new_order(seed: int, task: int, size: int) -> Tensor:
    """A random order of 0 ... size - 1, that of a task."""
    return torch.randperm(size, generator=keyed_generator("task", seed, task))


@dataclass(kw_only=True, eq=False)
class ImageData(DataModule):
    """Labeled images; batches are float32 (N, C, H, W). Test images are the standard ones; validation is cut from the
    training images.

    Pixels are scaled to [0, 1], then binarized, then normalized with the mean and standard deviation of every channel
    over the training split in use. `mean` and `std`, (C,) each, hold these numbers (0 and 1 without normalization).
    """

    kind = "image"
    max_pixel = 255  # the value of a white pixel from `read_images`

    split_seed: int = 0  # cuts validation and the subset; the run's seed does not
    val_size: int | None = None  # None: a tenth of the training images
    # None: all that validation leaves; a larger subset contains every smaller one
    train_size: int | None = None
    samples_per_class: int | None = None  # None: batches are drawn from all images alike
    binarize: bool = False  # pixel > 0.5
    normalize: bool = True
    augment: bool = False
    shift: int = 2  # pixels, when augmenting
    flip: bool = False  # mirror, when augmenting
    border: Border = "black"  # of shifted images
    tta: Tta = "none"  # what evaluation averages over
    tasks: Kind | None = None  # a sequence of tasks instead of one: see `Tasks`
    task_batches: int = 500  # of each task

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
        require_choice("data.border", self.border, get_args(Border))
        require_choice("data.tta", self.tta, get_args(Tta))
        if self.tta == "flip" and self.tasks == "permuted":
            raise ValueError("data.tta=flip: data.tasks=permuted leaves no mirror image; drop one")
        _ = self.tasks_of_run  # checks its options

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
            split: PixelRows(images.pixels, rows, images.labels[rows], scaling, file=images.file)
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
                f"data.train_size={train_size}: validation leaves {available - val_size} images; "
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
        tasks = f", {self.tasks} anew every {self.task_batches} batches" if self.tasks else ""
        return f"{type(self).__name__}: {sizes} images of {shape}, {self.num_classes} classes{tasks}"


class Digits(ImageData):
    """8x8 gray images of ten digits (UCI, Alpaydin & Kaynak 1998); 360 stratified test images. No download.

    The set has no standard splits. `split_seed` cuts all three, so another seed has other test images.
    """

    max_pixel = 16

    def read_images(self) -> Images:
        from sklearn.datasets import load_digits  # a second of imports

        digits = load_digits()
        images = torch.from_numpy(digits.images).to(torch.uint8).unsqueeze(1)  # (1797, 1, 8, 8)
        labels = torch.from_numpy(digits.target).long()
        order = stratified_order(labels, self.split_seed)
        return Images(images, labels, train=order[TEST_SIZE:], test=order[:TEST_SIZE], num_classes=10)
