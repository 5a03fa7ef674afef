"""Assign samples to splits. A separate seed does it, so the run's seed does not change the validation set."""

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DIGESTED = 1000  # number of test inputs that are hashed, besides all targets


class Split(NamedTuple):
    """Inputs and targets of one split, on the CPU: images (N, C, H, W) and labels (N,), or tokens and next tokens."""

    x: Tensor
    y: Tensor


def digest(inputs: Tensor, targets: Tensor) -> str:
    """Digest of a test set: of all targets and the first inputs."""
    content = hashlib.sha256(targets.contiguous().numpy().tobytes())
    content.update(inputs.contiguous().numpy().tobytes())
    return content.hexdigest()[:16]


def split_random(seed: int) -> np.random.RandomState:
    """A generator whose stream numpy never changes, so splits stay equal across versions of torch and numpy."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"data.split_seed={seed}: choose a number in 0..{2**32 - 1}")
    return np.random.RandomState(seed)


def stratified_order(labels: Tensor, seed: int) -> Tensor:
    """An order of all samples in which every stretch holds the classes in proportion.

    The j-th of the n_c shuffled samples of class c stands at (j + 1/2) / n_c. So before place t there are round(t n_c)
    samples of class c. Stretches of this order are stratified splits. The prefixes of one stretch are nested subsets.
    """
    classes = labels.numpy()
    shuffled = split_random(seed).permutation(len(classes))
    place = np.empty(len(classes))
    for label in np.unique(classes):
        members = shuffled[classes[shuffled] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return torch.from_numpy(shuffled[np.argsort(place[shuffled], kind="stable")])
