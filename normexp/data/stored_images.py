"""Labelled images as pixels, and their form on disk: a file of pixels that is mapped, and what belongs to them."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

PIXELS, LABELS, ABOUT = "pixels.u8", "labels.npz", "about.json"


@dataclass(eq=False)
class Images:
    """All images of a data set, and which of them are the standard training and test images.

    Attributes:
        pixels: uint8 (N, C, H, W), in memory or mapped from a file.
        labels: int64 (N,).
        train, test: row numbers, int64, in the order of the data set.
        num_classes: classes that the labels name.
        fingerprint: as a DataModule's.
    """

    pixels: Tensor
    labels: Tensor
    train: Tensor
    test: Tensor
    num_classes: int
    fingerprint: str = ""


def write(folder: Path, images: Images, *, pixels_there: bool = False) -> None:
    """Write images into an empty folder; `pixels_there` where their file is written already."""
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
    """The images of a folder; their pixels are mapped, so that memory holds what is used, once for all processes."""
    about = json.loads((folder / ABOUT).read_text())
    with np.load(folder / LABELS, allow_pickle=False) as arrays:
        rows = {name: torch.from_numpy(array) for name, array in arrays.items()}
    pixels = mapped(folder / PIXELS, about["shape"])
    return Images(pixels, **rows, num_classes=about["num_classes"], fingerprint=about["fingerprint"])


def mapped(path: Path, shape: list[int]) -> Tensor:
    """A file as a tensor of bytes that must not be written to."""
    pixels = np.memmap(path, np.uint8, mode="r", shape=tuple(shape))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(pixels)
