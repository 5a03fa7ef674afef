"""Whether a network hides later positions from its attention."""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from normexp.check.network import Network

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
