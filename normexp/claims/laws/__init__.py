"""Laws: properties of a norm, or of a network at initialization, that need no training.

Each is a pure function `law(subject, *, seed, **options) -> float`. The subject is a norm factory (contract 1) or a
network with `sites()`. Facts about torch take no subject. Numbers are computed in float64, unless the claim is about
float32.
"""

from collections.abc import Iterator
from typing import Any, Protocol, Self

from torch import Tensor, nn


class Network(Protocol):
    """A torch.nn.Module that names its `sites`: measuring places whose `kind` is norm, activation, linear or residual.
    Whoever builds it also sets what describes its inputs."""

    accepts: str  # `image` or `text`
    input_shape: tuple[int, ...]  # (C, H, W) of an image, (T,) of a text
    num_classes: int  # or the size of the vocabulary
    examples: tuple[Tensor, Tensor] | None  # inputs and labels from which batches are drawn; None for noise

    def __call__(self, x: Tensor, /) -> Tensor: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def sites(self) -> list[Any]: ...

    def train(self) -> Self: ...


def modules_of(network: Network, kind: str) -> list[nn.Module]:
    """The modules of all sites of a kind, in forward order."""
    return [site.module for site in network.sites() if site.kind == kind]


def gradient_of(x: Tensor) -> Tensor:
    """`x.grad`, after a backward pass."""
    assert x.grad is not None
    return x.grad
