"""Which sample belongs to which split. A seed of its own fixes it, so that a run's seed moves no validation set."""

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DIGESTED = 1000  # test inputs that are hashed, beside all targets


class Split(NamedTuple):
    """Inputs and targets of one split, on the CPU: images (N, C, H, W) and labels (N,), or tokens and next tokens."""

    x: Tensor
    y: Tensor


def digest(inputs: Tensor, targets: Tensor) -> str:
    """What tells one test set from another, of all its targets and its first inputs."""
    content = hashlib.sha256(targets.contiguous().numpy().tobytes())
    content.update(inputs.contiguous().numpy().tobytes())
    return content.hexdigest()[:16]


def split_random(seed: int) -> np.random.RandomState:
    """numpy never changes this generator's stream, so a split outlives versions of torch and numpy."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"data.split_seed={seed}: choose a number in 0..{2**32 - 1}")
    return np.random.RandomState(seed)


def stratified_order(labels: Tensor, seed: int) -> Tensor:
    """An order of all samples in which every stretch holds the classes in proportion.

    The j-th of the n_c shuffled samples of class c stands at (j + 1/2) / n_c, so the samples before place t are
    round(t n_c) of every class. Cut into stretches, the order gives stratified splits; longer and longer prefixes of
    one stretch are nested subsets.
    """
    classes = labels.numpy()
    shuffled = split_random(seed).permutation(len(classes))
    place = np.empty(len(classes))
    for label in np.unique(classes):
        members = shuffled[classes[shuffled] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return torch.from_numpy(shuffled[np.argsort(place[shuffled], kind="stable")])
