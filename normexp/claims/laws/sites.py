"""A network that names its measuring places, batches for it, and what its places give."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn


class SiteNetwork(Protocol):
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


def modules_of(network: SiteNetwork, kind: str) -> list[nn.Module]:
    """The modules of all sites of a kind, in forward order."""
    return [site.module for site in network.sites() if site.kind == kind]


def labelled(network: SiteNetwork, seed: int, batch_size: int) -> tuple[Tensor, Tensor]:
    """A batch of inputs with their classes: examples of the network's data, each at most once, or noise with random
    classes. Raises ValueError for a batch larger than the data."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    if network.examples is not None:
        inputs, classes = network.examples
        if batch_size > len(inputs):
            raise ValueError(f"batch_size={batch_size}: the data has {len(inputs)} examples; ask for fewer")
        chosen = torch.randperm(len(inputs), generator=generator)[:batch_size]
        return inputs[chosen], classes[chosen]
    shape, of_classes = (batch_size, *network.input_shape), torch.Generator().manual_seed(seed)
    classes = torch.randint(0, network.num_classes, (batch_size,), generator=of_classes)
    if network.accepts == "text":
        return torch.randint(0, network.num_classes, shape, generator=generator), classes
    return torch.randn(shape, generator=generator), classes


def input_batch(network: SiteNetwork, seed: int, batch_size: int) -> Tensor:
    """The inputs of a `labelled` batch."""
    return labelled(network, seed, batch_size)[0]


@contextlib.contextmanager
def outputs(network: SiteNetwork, kind: str) -> Iterator[list[Tensor]]:
    """Outputs of every site of a kind, in forward order, which keep their gradients."""
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        if output.requires_grad:
            output.retain_grad()
        found.append(output)

    handles = [module.register_forward_hook(keep) for module in modules_of(network, kind)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def observed(network: SiteNetwork, batch: Tensor, kind: str) -> list[Tensor]:
    """Outputs of every site of a kind for a batch, in forward order, in training mode."""
    with outputs(network.train(), kind) as found:
        network(batch)
    return found


def linear_outputs(network: SiteNetwork, seed: int, batch_size: int) -> list[Tensor]:
    """Outputs of every linear map, with `.grad`, after a forward and a backward pass in training mode."""
    network.train()
    with outputs(network, "linear") as found:
        y = network(input_batch(network, seed, batch_size))
        generator = torch.Generator().manual_seed(seed + 2_000_000)
        (y * torch.randn(y.shape, generator=generator)).sum().backward()
    return found
