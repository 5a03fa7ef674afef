"""The mathematics of normalization, written once. A layer chooses axes, statistics and affine parameters.

Every function takes channels at axis 1, (N, C) or (N, C, ...), and has derivatives of any order.

What is read here is what runs for l1 and linf deviations, detached statistics, the partial RMSNorm, second
derivatives and `layer.native = False`, and under the compiler (except torch's own layers). The rest runs kernels of
torch that compute the same, because a layer by formula takes 1.7 to 6 times as long. `kernels.py` shows why they agree,
and tests compare the two. Times faster, forward and backward together (one thread of an AVX-512 CPU, float32; dense
64x256, image 64x64x16x16, tokens 16x64x256):

    formula       runs instead, of `kernels`              layer                  dense  image  tokens
    group_norm    group_norm, layer_norm                  LayerNorm              4.5    4.9    4.9
                                                          GroupNorm, 8 groups    1.9    6.0    1.8
                                                          LayerNorm, eps outside 1.8    2.8    2.2
    batch_norm    BatchNorm.torch_batch_norm: torch's     BatchNorm              3.9    3.6    3.7
                  batch_statistics, normalize_batch       BatchNorm, eps outside 2.1    3.9    3.0
    rms_norm      rms_norm, rms_norm_last                 RMSNorm                1.7    2.3    2.5
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def moments(
    x: Tensor, dims: Sequence[int], correction: int = 0, deviation: str = "l2"
) -> tuple[Tensor, Tensor]:
    """Mean and variance of x over `dims`, which are kept with size 1.

    The variance is sum((x - mean)^2) / (n - correction), in two passes: E[x^2] - E[x]^2 loses every digit when the mean
    is large. `deviation` l1 and linf estimate a Gaussian's standard deviation in another way; the square is returned:
        l1: sqrt(pi / 2) * mean |x - mean|,   linf: (1 + sqrt(pi ln 4)) / sqrt(8 ln n) * max |x - mean|,
    from Hoffer et al. 2018, Norm Matters. They ignore `correction`.
    """
    mean = x.mean(dims, keepdim=True)
    n = x.numel() // max(mean.numel(), 1)
    centered = x - mean
    if deviation == "l2":
        return mean, centered.square().sum(dims, keepdim=True) / (n - correction)
    if deviation == "l1":
        return mean, (math.sqrt(math.pi / 2) * (centered.abs().sum(dims, keepdim=True) / n)).square()
    factor = (1 + math.sqrt(math.pi * math.log(4))) / (8 * math.log(max(n, 2))) ** 0.5
    return mean, (factor * centered.abs().amax(dims, keepdim=True)).square()


def inverse_deviation(var: Tensor, eps: float, eps_position: str) -> Tensor:
    """r(v) = 1 / sqrt(v + eps) for eps inside the root, 1 / (sqrt(v) + eps) for eps outside."""
    if eps_position == "inside":
        return torch.rsqrt(var + eps)
    positive = var > 0  # sqrt has an infinite slope at 0; give a constant input the subgradient 0, not NaN
    std = torch.where(positive, var, 1.0).sqrt() * positive
    return 1 / (std + eps)


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * weight + bias with one value per channel; None omits that part."""
    if weight is not None:
        x = x * along_channels(weight, x)
    if bias is not None:
        x = x + along_channels(bias, x)
    return x


def along_channels(values: Tensor, x: Tensor) -> Tensor:
    """One value per channel, (C), shaped to multiply x (N, C, ...)."""
    return values.view(-1, *[1] * (x.dim() - 2))  # (C) -> (C, 1, ...)


def at_least_float32(x: Tensor) -> Tensor:
    """x in float32 if it has half precision, else x itself: statistics need the digits."""
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
    detach: str = "none",
) -> Tensor:
    """(x - mean) * r(var) * weight + bias, statistics over the channels of one group and every axis after them.
    `detach` names the statistics that pass no gradient, which no kernel can: mean, std or both."""
    x = at_least_float32(x).unflatten(1, (groups, -1))  # (N, C, ...) -> (N, G, C/G, ...)
    mean, var = moments(x, list(range(2, x.dim())), correction)
    mean = mean.detach() if detach in ("mean", "both") else mean
    var = var.detach() if detach in ("std", "both") else var
    x = (x - mean) * inverse_deviation(var, eps, eps_position)
    return affine(x.flatten(1, 2), weight, bias)


def rms_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float, fraction: float = 1.0
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight + bias. The mean runs over the first `fraction` of a sample's values."""
    x = at_least_float32(x)
    rows = x.flatten(1)  # (N, C, ...) -> (N, n)
    first = rows[:, : max(1, int(rows.shape[1] * fraction))]
    scale = torch.rsqrt(first.square().mean(1) + eps)
    return affine(x * scale.view(-1, *[1] * (x.dim() - 1)), weight, bias)


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
    """(x - mean) * r(var) * weight + bias with one mean and variance per channel, (C).

    With the batch's statistics, BatchNorm runs torch's own layer in its place, 3.6 to 3.9 times as fast, and for eps
    outside the root, virtual batches and BatchRenorm `kernels.normalize_batch`, 2 to 4 times as fast.
    """
    x = at_least_float32(x)
    x = (x - along_channels(mean, x)) * along_channels(inverse_deviation(var, eps, eps_position), x)
    return affine(x, weight, bias)
