"""Whether a network hides later positions from its attention, and where they enter all the same."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from normexp.check.findings.masks import with_input
from normexp.check.network import Network
from normexp.check.trace import TINY
from normexp.monitors.sites import first_tensor

HIDDEN = -1e3  # added to a score that is left out; softmax makes 0 of it


class Attention(TorchFunctionMode):
    """Hears for each call of attention whether it leaves later positions out."""

    def __init__(self) -> None:
        super().__init__()
        self.hides: list[bool] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs, name, output = kwargs or {}, getattr(func, "__name__", ""), None
        if name == "scaled_dot_product_attention":
            named = dict(
                zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False)
            )
            named |= kwargs
            self.hides.append(
                bool(named.get("is_causal")) or hides_later(named.get("attn_mask"), attends=True)
            )
        elif name == "multi_head_attention_forward":
            self.hides.append(hides_later(kwargs.get("attn_mask"), attends=False))
        output = func(*args, **kwargs)
        if name == "softmax" and output.dim() > 2 and output.shape[-1] == output.shape[-2] > 1:
            self.hides.append(hides_later(output.log(), attends=True))
        return output


def hides_later(mask: Any, *, attends: bool) -> bool:
    """Whether a mask (..., T, T) leaves out what is behind each position, and no position itself: by numbers that are
    added to scores, or by truth, where `attends` says what True means."""
    if not isinstance(mask, Tensor) or mask.dim() < 2 or mask.shape[-1] != mask.shape[-2]:
        return False
    seen = mask == attends if mask.dtype == torch.bool else mask > HIDDEN
    seen = seen.reshape(-1, *mask.shape[-2:])[0]
    return bool(seen.diagonal().any()) and not bool(seen.triu(1).any())


def masks_later(network: Network) -> bool:
    """Whether all attention of a network leaves later positions out; False if it has none."""
    with network.quiet(train=True), torch.no_grad(), Attention() as attention:
        network.forward(network.batches.training)
    return bool(attention.hides) and all(attention.hides)


def entrance(network: Network, inputs: Sequence[Tensor], positions: int, limit: float) -> str:
    """Path of the first layer whose output up to the middle position differs for two inputs that are alike up to there,
    and whose own input up to the middle does not differ; empty if it is none but the network."""
    passes = []
    for x in inputs:
        seen: list[tuple[str, list[Tensor], list[Tensor]]] = []
        with network.quiet(train=True), torch.no_grad():
            for path, module in network.modules.items():
                keep = functools.partial(_keep, seen, path, positions)
                module.register_forward_hook(keep, with_kwargs=True)
            network.forward(with_input(network, x))
        passes.append(seen)
    for (path, *ends), (_, *others) in zip(*passes, strict=False):
        came, left = (differs(*pair) for pair in zip(ends, others, strict=True))
        if came <= limit < left:
            return path
    return ""


def _keep(seen: list, path: str, positions: int, _: nn.Module, args: tuple, named: dict, output: Any) -> None:
    ends = (first_tensor(args, named), first_tensor(tuple(tree_leaves(output)), {}))
    seen.append((path, *(early(x, positions) for x in ends)))


def early(x: Tensor | None, positions: int) -> list[Tensor]:
    """x up to the middle position, along each axis behind the first that has so many."""
    axes = [] if x is None else [axis for axis in range(1, x.dim()) if x.shape[axis] == positions]
    return [x.narrow(axis, 0, positions // 2 + 1).double() for axis in axes]


def differs(first: list[Tensor], second: list[Tensor]) -> float:
    """How far two tensors are apart, as a share of their size, along the axis that shows it least; not a number without
    one."""
    both = [(a, b) for a, b in zip(first, second, strict=False) if a.shape == b.shape]
    return min((float((a - b).norm() / a.norm().clamp_min(TINY)) for a, b in both), default=math.nan)
