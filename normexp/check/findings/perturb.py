"""What of the output depends on what of the input: passes with other numbers in a part of the batch."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from normexp.check.network import Network
from normexp.check.norm_sites import NormSite
from normexp.check.trace import TINY
from normexp.monitors.batches import arguments
from normexp.monitors.sites import first_tensor

Kept = Callable[[Tensor], list[Tensor]]  # the parts of a tensor that are compared


def first_input(network: Network) -> Tensor | None:
    """The first tensor that the network is called with; None if a class of one's own hides it."""
    args, named, _ = arguments(network.root, network.batches.training)
    inside = args[0] if args and isinstance(args[0], (Mapping, tuple, list)) else ()
    args = (*args, *(inside.values() if isinstance(inside, Mapping) else inside))
    return first_tensor(args, named)


def with_input(network: Network, x: Tensor) -> Any:
    """The training batch with x in place of the network's first input."""
    first = first_input(network)
    return apply_to_collection(network.batches.training, Tensor, lambda t: x if t is first else t)


def output_at(network: Network, x: Tensor, without: Iterable[NormSite] = (), *, train: bool = True) -> Tensor:
    """The output of a training pass with x in place of the first input; some norms may be made the identity. Without
    `train`, in eval mode."""
    with network.quiet(train=train, without=without), torch.no_grad():
        return network.forward(with_input(network, x)).double()


def altered(x: Tensor, where: Tensor) -> Tensor:
    """x with other numbers where it is asked: tokens of the batch, or normal noise of its size."""
    torch.manual_seed(0)
    if x.is_floating_point():
        return torch.where(where, x + torch.randn_like(x) * (1 + x.std(correction=0)), x)
    other = x.flatten()[torch.randperm(x.numel(), device=x.device)].view(x.shape)
    return torch.where(where, torch.where(other == x, x.flip(0, 1), other), x)


def moved(a: Tensor, b: Tensor) -> float:
    """How far two tensors are apart, as a share of the first one's size."""
    return float((a - b).norm() / a.norm().clamp_min(TINY))


def least_moved(first: list[Tensor], second: list[Tensor]) -> float:
    """`moved` of the pair of tensors that shows it least; infinite without a pair of one shape."""
    both = zip(first, second, strict=False)
    return min((moved(a, b) for a, b in both if a.shape == b.shape), default=float("inf"))


def entrance(
    network: Network, batches: Sequence[Any], kept: Kept, limit: float, *, train: bool = True
) -> str:
    """Path of the first layer whose output differs for two batches where its own input does not, in what is kept of
    both; empty if it is none but the network."""
    passes: list[list[tuple[str, list[Tensor], list[Tensor]]]] = []

    def keep(path: str, _: nn.Module, args: tuple, named: dict, output: Any) -> None:
        ends = (first_tensor(args, named), first_tensor(tuple(tree_leaves(output)), {}))
        came, left = ([] if x is None else [part.double() for part in kept(x)] for x in ends)
        passes[-1].append((path, came, left))

    for batch in batches:
        passes.append([])
        with network.quiet(train=train), torch.no_grad():
            for path, module in network.modules.items():
                module.register_forward_hook(functools.partial(keep, path), with_kwargs=True)
            network.forward(batch)
    for (path, came, left), (_, *others) in zip(*passes, strict=False):
        if left and least_moved(came, others[0]) <= limit < least_moved(left, others[1]) < float("inf"):
            return path
    return ""
