"""What several laws use: drawn numbers, distances, and the output of a norm."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

NormFactory = Callable[..., nn.Module]
Half = Literal["float16", "bfloat16"]


def sample(seed: int, *shape: int) -> Tensor:
    """Standard normal values in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def apart(a: Tensor, b: Tensor | float = 0.0) -> float:
    """The largest |a - b| of any entry."""
    return float((a - b).abs().max())


def relative(x: Tensor, exact: Tensor) -> float:
    """Root mean square distance, divided by the root mean square of the exact values."""
    return float((x.double() - exact).norm() / exact.norm())


def gradient_of(x: Tensor) -> Tensor:
    """`x.grad`, after a backward pass."""
    assert x.grad is not None
    return x.grad


def function_of(name: str) -> Callable[[Tensor], Tensor]:
    """The function of `torch.nn.functional`, or of `torch` if it has none of this name."""
    return getattr(nn.functional, name, None) or getattr(torch, name)


@torch.no_grad()
def output(norm: NormFactory, x: Tensor) -> Tensor:
    """What a new norm makes of x (N, C, ...) in training mode."""
    return norm(x.shape[1]).double()(x)


def draw_gain(layer: torch.nn.Module, seed: int) -> Tensor:
    """Give a layer a gain from U(0.5, 1.5), and return it."""
    gain = layer.get_parameter("weight")
    return gain.copy_(0.5 + torch.rand(len(gain), generator=torch.Generator().manual_seed(seed)))
