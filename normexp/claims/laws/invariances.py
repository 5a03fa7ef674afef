"""Invariances of a norm's output: the battery of Ba et al. 2016, Table 1, and whether samples are mixed."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from normexp.claims.laws.common import NormFactory, apart, output, relative, sample
from normexp.claims.laws.gradients import gradient_norm

N, D, C = 32, 24, 16  # samples, inputs, units
Change = Literal[
    "weights x 3", "weights + vector", "one unit's weights x 3", "data x 3", "data + constant", "one sample x 3",
]  # fmt: skip


def change(name: Change, weight: Tensor, data: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The weights (C, D) and the data set (N, D) after one of the changes of Table 1."""
    first_unit, first_sample = torch.ones(C, 1, dtype=data.dtype), torch.ones(len(data), 1, dtype=data.dtype)
    first_unit[0] = first_sample[0] = 3.0
    changes = {
        "weights x 3": lambda: (3 * weight, data),
        # One row for every unit: W + 1 g^T.
        "weights + vector": lambda: (weight + sample(seed + 10, D), data),
        "one unit's weights x 3": lambda: (first_unit * weight, data),
        "data x 3": lambda: (weight, 3 * data),
        "data + constant": lambda: (weight, data + sample(seed + 11, D)),
        "one sample x 3": lambda: (weight, first_sample * data),
    }
    return changes[name]()


def relative_change(function: Callable[[Tensor, Tensor], Tensor], seed: int, change_of: Change) -> float:
    """|after - before| / |before| of a function of weights and data, Euclidean norms over all elements."""
    weight, data = sample(seed, C, D), sample(seed + 1, N, D)
    before = function(weight, data)
    return relative(function(*change(change_of, weight, data, seed)), before)


@torch.no_grad()
def summed_inputs(norm: NormFactory, *, seed: int, change_of: Change) -> float:
    """Relative change of norm(W x), the norm after the weights, while training."""
    layer = norm(C).double().train()
    return relative_change(lambda weight, data: layer(data @ weight.T), seed, change_of)


@torch.no_grad()
def normalized_inputs(norm: NormFactory, *, seed: int, change_of: Change) -> float:
    """Relative change of W norm(x), the norm before the weights, as in a Pre-LN branch."""
    layer = norm(D).double().train()
    return relative_change(lambda weight, data: layer(data) @ weight.T, seed, change_of)


def is_invariant(norm: NormFactory, *, seed: int, change_of: Change) -> float:
    """1 if norm(W x) does not change under a change of Table 1, else 0 (within a relative 1e-3, because of eps)."""
    return float(summed_inputs(norm, seed=seed, change_of=change_of) < 1e-3)


def other_samples(norm: NormFactory, *, seed: int) -> float:
    """Largest change of the first two samples' output if the rest of a batch of 64 is removed."""
    x = sample(seed, 64, C)
    return apart(output(norm, x)[:2], output(norm, x[:2]))


def smaller_batch(norm: NormFactory, *, seed: int, samples: int, batch_size: int = 64) -> float:
    """Largest change of an output of the first samples of a batch when they are a batch of their own; infinite if the
    norm refuses so few."""
    x = sample(seed, batch_size, C)
    try:
        return apart(output(norm, x)[:samples], output(norm, x[:samples]))
    except ValueError:
        return float("inf")


@torch.no_grad()
def other_tokens(norm: NormFactory, *, seed: int, tokens: int = 12) -> float:
    """Largest change of one token's output if the other tokens are permuted, or replaced by padding."""
    x = sample(seed, 4, tokens, C)  # (N, T, C)
    layer = norm(C, channel_dim=-1).double().train()
    y = layer(x)[:, 0]
    order = torch.randperm(tokens - 1, generator=torch.Generator().manual_seed(seed)) + 1
    permuted = torch.cat([x[:, :1], x[:, order]], 1)
    padded = torch.cat([x[:, :1], torch.zeros_like(x[:, 1:])], 1)
    return max(apart(layer(other)[:, 0], y) for other in (permuted, padded))


def image_moments(norm: NormFactory, *, seed: int, over: Literal["channel", "sample", "position"]) -> float:
    """Largest |mean| and |std - 1| of the output for a batch of images, (N, C, H, W): over batch and positions of a
    channel, over one whole sample, or over the channels of one position."""
    y = output(norm, 3 * sample(seed, 16, 8, 5, 5) + 2)
    dims = {"channel": (0, 2, 3), "sample": (1, 2, 3), "position": (1,)}[over]
    return max(apart(y.mean(dims)), apart(y.std(dims, correction=0), 1.0))


@torch.no_grad()
def two_image_forms(norm: NormFactory, *, seed: int) -> float:
    """Largest difference, on an image, between the norm over (C, H, W) and the norm over C at each position."""
    x = sample(seed, 4, 8, 5, 5)
    whole = output(norm, x)
    rows = norm(8, channel_dim=-1).double()(x.movedim(1, -1).flatten(1, 2))  # (N, H W, C)
    return apart(whole, rows.unflatten(1, (5, 5)).movedim(-1, 1))


def weight_gradient_ratio(norm: NormFactory, *, seed: int, scale: float) -> float:
    """Norm of the loss's gradient at weights `scale` W divided by that at W: 1 / scale if the scale has no effect."""
    data, direction = sample(seed + 1, N, D), sample(seed + 2, N, C)
    layer, weight = norm(C).double().train(), sample(seed, C, D)
    scaled, plain = (
        gradient_norm(lambda w: layer(data @ w.T), factor * weight, direction) for factor in (scale, 1.0)
    )
    return float(scaled / plain)
