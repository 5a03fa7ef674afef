"""Half precision: where a norm rounds, the size at which its squares overflow, and torch's default eps."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from normexp.claims.laws.common import Half, NormFactory, draw_gain, relative, sample

Formula = Literal["torch layer_norm", "torch rms_norm"]


@torch.no_grad()
def rounding_error(norm: NormFactory, *, seed: int, dtype: Half, features: int = 512) -> float:
    """Error of the norm in half precision against float64 on the same inputs, with a gain from U(0.5, 1.5): root mean
    square, divided by that of the outputs."""
    layer = norm(features).to(getattr(torch, dtype))
    draw_gain(layer, seed)
    x = sample(seed, 64, features).to(getattr(torch, dtype))
    return relative(layer(x), norm_in_float64(norm, layer, x))


@torch.no_grad()
def stream_error(norm: NormFactory, *, seed: int, dtype: Half, depth: int, features: int = 128) -> float:
    """Error against float64 of a residual stream behind `depth` blocks x + W norm(x), all computed in half precision:
    root mean square, divided by that of the stream."""
    half = getattr(torch, dtype)
    x = sample(seed, 32, features).to(half)
    exact = x.double()
    for k in range(depth):
        layer = norm(features).to(half)
        draw_gain(layer, seed + k)
        weight = (sample(seed + 1000 + k, features, features) / features**0.5).to(half)
        x = x + layer(x) @ weight
        exact = exact + norm_in_float64(norm, layer, exact) @ weight.double()
    return relative(x, exact)


def norm_in_float64(norm: NormFactory, like: torch.nn.Module, x: Tensor) -> Tensor:
    """The norm with the gain of another layer, in float64."""
    twin = norm(x.shape[1]).double()
    twin.load_state_dict(like.state_dict())
    return twin(x.double())


@torch.no_grad()
def default_eps(*, seed: int, dtype: Literal["float32", Half]) -> float:
    """The eps of torch.nn.functional.rms_norm without one, from its output y at x = 2^-10: x^2 / y^2 - x^2, divided by
    float32's machine epsilon."""
    x = 2.0**-10
    y = F.rms_norm(torch.full((1, 8), x, dtype=getattr(torch, dtype)), (8,)).double()[0, 0].item()
    return (x**2 / y**2 - x**2) / torch.finfo(torch.float32).eps


@torch.no_grad()
def largest_input(*, seed: int, dtype: Half, formula: Formula, features: int = 768) -> float:
    """The largest |x| of a normal row at which `torch layer_norm` or `torch rms_norm` is right to 5%; at most the
    type's largest number."""
    function, row = getattr(F, formula.removeprefix("torch ")), sample(seed, 1, features)
    return largest_right(lambda x: function(x, x.shape[-1:]), row, dtype, function(row, row.shape[-1:]))


def largest_right(norm: Callable[[Tensor], Tensor], row: Tensor, dtype: str, exact: Tensor) -> float:
    """The largest |x| of a row at which a norm is right to 5%, by bisection; beyond it is 0 or not a number."""
    row, low, high = row / row.abs().max(), 1.0, torch.finfo(getattr(torch, dtype)).max
    for _ in range(60):
        middle = (low * high) ** 0.5
        y = norm((middle * row).to(getattr(torch, dtype))).double()
        right = bool(y.isfinite().all()) and relative(y, exact) < 0.05
        low, high = (middle, high) if right else (low, middle)
    return low
