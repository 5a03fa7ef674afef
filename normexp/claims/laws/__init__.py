"""Laws: properties of a norm, or of a network at initialization, that need no training.

Each is a pure function `law(subject, *, seed, **options) -> float`. The subject is a norm factory (contract 1) or a
network with `sites()`. Facts about torch take no subject. Numbers are computed in float64, unless the claim is about
float32.
"""

from collections.abc import Iterator
from typing import Any, Protocol, Self

from torch import Tensor, nn


class Network(Protocol):
    """A torch.nn.Module that names its sites.

    Attributes:
        accepts: `image` or `text`.
        input_shape: (C, H, W) of an image, (T,) of a text; set by the builder.
        num_classes: number of classes, or the size of the vocabulary; set by the builder.
        examples: inputs and labels of a data set from which batches are drawn; None for noise.
        sites: measuring places, whose `kind` is norm, activation, linear or residual.
    """

    accepts: str
    input_shape: tuple[int, ...]
    num_classes: int
    examples: tuple[Tensor, Tensor] | None

    def __call__(self, x: Tensor, /) -> Tensor: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def sites(self) -> list[Any]: ...

    def train(self) -> Self: ...


def modules_of(network: Network, kind: str) -> list[nn.Module]:
    """The modules of all sites of a kind, in forward order."""
    return [site.module for site in network.sites() if site.kind == kind]


def gradient_of(x: Tensor) -> Tensor:
    """`x.grad`. Raises ValueError if no backward pass went through `x`."""
    if x.grad is None:
        raise ValueError("gradient: nothing went backward through this tensor; run backward() first")
    return x.grad
