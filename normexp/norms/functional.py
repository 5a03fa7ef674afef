"""The mathematics of normalization, written once; a layer is a choice of axes, statistics and affine parameters.

Everything here takes channels at axis 1, (N, C) or (N, C, ...), and has derivatives of any order.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def moments(x: Tensor, dims: Sequence[int], correction: int = 0) -> tuple[Tensor, Tensor]:
    """Mean and variance sum((x - mean)^2) / (n - correction) over `dims`, which are kept with size 1.

    Two passes: E[x^2] - E[x]^2 loses every digit when the mean is large.
    """
    mean = x.mean(dims, keepdim=True)
    n = x.numel() // mean.numel()
    var = (x - mean).square().sum(dims, keepdim=True) / (n - correction)
    return mean, var


def inverse_deviation(var: Tensor, eps: float, eps_position: str) -> Tensor:
    """r(v) = 1 / sqrt(v + eps) for eps inside the root, 1 / (sqrt(v) + eps) for eps outside."""
    if eps_position == "inside":
        return torch.rsqrt(var + eps)
    positive = var > 0  # the slope of sqrt is infinite at 0; a constant input gets the subgradient 0, not NaN
    std = torch.where(positive, var, 1.0).sqrt() * positive
    return 1 / (std + eps)


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * weight + bias with one value per channel; None leaves that part out."""
    shape = (-1, *[1] * (x.dim() - 2))  # (C, 1, ...)
    if weight is not None:
        x = x * weight.view(shape)
    if bias is not None:
        x = x + bias.view(shape)
    return x


def at_least_float32(x: Tensor) -> Tensor:
    """Statistics of half precision values are taken in float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def group_norm(
    x: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    correction: int = 0,
    eps_position: str = "inside",
) -> Tensor:
    """(x - mean) * r(var) * weight + bias, statistics over the channels of one group and every axis after them."""
    x = at_least_float32(x).unflatten(1, (groups, -1))  # (N, C, ...) -> (N, G, C/G, ...)
    mean, var = moments(x, list(range(2, x.dim())), correction)
    x = (x - mean) * inverse_deviation(var, eps, eps_position)
    return affine(x.flatten(1, 2), weight, bias)


def rms_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight + bias, the mean over every axis but the first."""
    x = at_least_float32(x)
    mean_square = x.square().mean(list(range(1, x.dim())), keepdim=True)
    return affine(x * torch.rsqrt(mean_square + eps), weight, bias)


def batch_norm(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    eps: float,
    eps_position: str = "inside",
) -> Tensor:
    """(x - mean) * r(var) * weight + bias with one mean and variance per channel, (C)."""
    shape = (-1, *[1] * (x.dim() - 2))  # (C, 1, ...)
    x = (at_least_float32(x) - mean.view(shape)) * inverse_deviation(var, eps, eps_position).view(shape)
    return affine(x, weight, bias)
