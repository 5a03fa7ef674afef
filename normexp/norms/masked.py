"""Statistics under a mask: padded positions neither count nor matter, and the output is 0 there.

A mask has the shape of x without its channel axis, (N, T) for tokens (N, T, C), and is True at real positions. Where
every position is a sample of its own, or shares its statistics with all others, the real positions are cut out, (n, C),
and the layer runs on these. Where the statistics are those of one sample's positions, the sums leave padding out.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from normexp.norms import functional


class Maskable(Protocol):
    """What a layer offers."""

    channel_dim: int

    def positions_apart(self, x: Tensor) -> bool: ...
    def normalize(self, x: Tensor) -> Tensor: ...
    def normalize_masked(self, x: Tensor, mask: Tensor) -> Tensor: ...


def under_mask(layer: Maskable, x: Tensor, mask: Tensor) -> Tensor:
    """The layer on the real positions of x; 0 and without gradient elsewhere.

    Raises ValueError for a mask of another shape or type, or with no real position.
    """
    positions = x.movedim(layer.channel_dim, -1)  # (N, ..., C)
    if mask.dtype != torch.bool or mask.shape != positions.shape[:-1]:
        raise ValueError(
            f"mask: is {mask.dtype} of {tuple(mask.shape)}; must be torch.bool of {tuple(positions.shape[:-1])}, "
            "True at real positions"
        )
    if not mask.any():
        raise ValueError("mask: has no real position; leave such a batch out")
    if layer.positions_apart(x):
        rows = layer.normalize(positions[mask])  # (n, C)
        y = rows.new_zeros(positions.shape)
        return y.index_put((mask,), rows).movedim(-1, layer.channel_dim)
    real = mask.unsqueeze(layer.channel_dim)
    y = layer.normalize_masked(x.masked_fill(~real, 0.0), mask)  # padding may hold inf, and inf * 0 is nan
    return y.masked_fill(~real, 0.0)


def moments(
    x: Tensor, real: Tensor, dims: Sequence[int], correction: int, deviation: str
) -> tuple[Tensor, Tensor]:
    """`functional.moments` over those values where `real`, which broadcasts to x, is True; x is 0 elsewhere."""
    n = real.expand_as(x).sum(dims, keepdim=True).clamp_min(1).to(x.dtype)
    mean = x.sum(dims, keepdim=True) / n
    centered = (x - mean).masked_fill(~real, 0.0)
    if deviation == "l2":
        return mean, centered.square().sum(dims, keepdim=True) / (n - correction)
    if deviation == "l1":
        return mean, (centered.abs().sum(dims, keepdim=True) / n * (torch.pi / 2) ** 0.5).square()
    four = torch.tensor(4.0, dtype=x.dtype, device=x.device).log()
    factor = (1 + (torch.pi * four).sqrt()) / (8 * n.clamp_min(2).log()).sqrt()
    return mean, (factor * centered.abs().amax(dims, keepdim=True)).square()


def group_norm(
    x: Tensor, mask: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, **options: Any
) -> Tensor:
    """`functional.group_norm` of x (N, C, ...) with mask (N, ...), statistics over real positions.

    Raises ValueError where a sample has one value in a group: there is nothing to normalize over.
    """
    eps, correction = options["eps"], options.get("correction", 0)
    x = functional.at_least_float32(x).unflatten(1, (groups, -1))  # (N, G, C/G, ...)
    real = mask[:, None, None]
    counts = mask.flatten(1).sum(1)
    if x.shape[2] == 1 and bool((counts == 1).any()):
        raise ValueError(
            "mask: a sample has one real position, which leaves one value in a group and nothing to normalize over; "
            "leave such samples out or use norm=layernorm"
        )
    mean, var = moments(x, real, list(range(2, x.dim())), correction, options.get("deviation", "l2"))
    mean = mean.detach() if options.get("detach") in ("mean", "both") else mean
    var = var.detach() if options.get("detach") in ("std", "both") else var
    x = (x - mean) * functional.inverse_deviation(var, eps, options.get("eps_position", "inside"))
    return functional.affine(x.flatten(1, 2), weight, bias)


def rms_norm(x: Tensor, mask: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """`functional.rms_norm` of x (N, C, ...), 0 at padding, with mask (N, ...)."""
    x = functional.at_least_float32(x)
    n = mask.flatten(1).sum(1).clamp_min(1) * x.shape[1]
    scale = torch.rsqrt(x.flatten(1).square().sum(1) / n + eps)
    return functional.affine(x * scale.view(-1, *[1] * (x.dim() - 1)), weight, bias)
