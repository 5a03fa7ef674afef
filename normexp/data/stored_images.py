"""Labeled images as pixels, and their form on disk: a mapped file of pixels, and a file of everything else."""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from normexp.data.mapped_file import MappedFile
from normexp.data.scaling import count_values

MANY = 2**25  # pixels; to count them takes a tenth of a second
PIXELS, LABELS, ABOUT = "pixels.u8", "labels.npz", "about.json"


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
        folder: the folder of the cache that holds them, or None.
    """

    pixels: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    num_classes: int
    fingerprint: str = ""
    file: MappedFile | None = None
    folder: Path | None = None

    def check(self) -> None:
        """Raise ValueError with one line if the labels do not fit these images."""
        if len(self.labels) != len(self.pixels):
            raise ValueError(f"{len(self.labels):,} labels for {len(self.pixels):,} images")
        wrong = ((self.labels < 0) | (self.labels >= self.num_classes)).nonzero().flatten()
        if len(wrong):
            first = int(wrong[0])
            raise ValueError(
                f"label {int(self.labels[first])} of image {first}, of {self.num_classes} classes"
            )

    def count(self, place: Tensor) -> Tensor:
        """`count_values` of the images `place`. A count that takes long is kept beside the images."""
        if self.folder is None or len(place) * self.pixels[0].numel() < MANY:
            return count_values(self.pixels, place)
        known = self.folder / f"counts-{hashlib.sha256(place.numpy().tobytes()).hexdigest()[:16]}.npy"
        if known.is_file():
            return torch.from_numpy(np.load(known, allow_pickle=False))
        counts = count_values(self.pixels, place)
        with suppress(OSError):  # the cache may be read-only
            partial = known.with_suffix(f".{os.getpid()}.partial")
            with partial.open("wb") as file:
                np.save(file, counts.numpy())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(known)
        return counts


def write(folder: Path, images: Images, *, pixels_there: bool = False) -> None:
    """Write images into an empty folder. `pixels_there`: the file of pixels is already written."""
    if not pixels_there:
        images.pixels.contiguous().numpy().tofile(folder / PIXELS)
    np.savez(folder / LABELS, **{n: getattr(images, n).numpy() for n in ("labels", "train", "test")})
    about = {
        "shape": list(images.pixels.shape),
        "num_classes": images.num_classes,
        "fingerprint": images.fingerprint,
    }
    (folder / ABOUT).write_text(json.dumps(about))


def read(folder: Path) -> Images:
    """The images of a folder. Their pixels are mapped: memory holds only what is used, once for all processes."""
    about = json.loads((folder / ABOUT).read_text())
    with np.load(folder / LABELS, allow_pickle=False) as arrays:
        rows = {name: torch.from_numpy(array) for name, array in arrays.items()}
    file = MappedFile(folder / PIXELS, about["shape"])
    return Images(
        file.tensor,
        **rows,
        num_classes=about["num_classes"],
        fingerprint=about["fingerprint"],
        file=file,
        folder=folder,
    )
