"""Which positions of a batch are padding, and where a mask lies in what arrives at a norm."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from normexp.check.findings.perturb import first_input
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import Call
from normexp.monitors.batches import arguments


class Mask(NamedTuple):
    """True at real tokens, (N, T), and where that is from."""

    real: Tensor
    source: str


def mask_of(network: Network) -> Mask | None:
    """What the user said, or the batch's `attention_mask` or `lengths`, or the tokens that an embedding pads with."""
    given, batch = network.options.mask, network.batches.training
    if given is not None:
        mask = given(batch) if callable(given) else given
        if not isinstance(mask, (Tensor, np.ndarray, list)):
            raise NotChecked(f"mask= gives a {type(mask).__name__}; pass (N, T), True at real tokens")
        mask = torch.as_tensor(mask)
        return Mask((mask if network.samples is None else mask[: network.samples]).bool(), "mask=")
    args, named, _ = arguments(network.root, batch)
    named, x = args[0] if args and isinstance(args[0], Mapping) else named, first_input(network)
    attended, lengths = named.get("attention_mask"), named.get("lengths")
    if isinstance(attended, Tensor) and attended.dim() == 2:
        return Mask(attended.bool(), "attention_mask")
    if isinstance(lengths, Tensor) and x is not None and x.dim() > 1 and lengths.shape == x.shape[:1]:
        return Mask(torch.arange(x.shape[1], device=x.device) < lengths[:, None], "lengths")
    if x is not None and x.dim() == 2 and not x.is_floating_point():
        pads = (m.padding_idx for m in network.modules.values() if isinstance(m, nn.Embedding))
        index = next((pad for pad in pads if pad is not None), None)
        if index is not None and bool((x == index).any()):
            return Mask(x != index, f"padding_idx={index}")
    return None


def laid(real: Tensor, call: Call) -> Tensor | None:
    """The mask in the shape of what arrives at a norm, (N, T, C), (N, C, T), (T, N, C), or N T rows; None if it counts
    something else, as where a convolution has made fewer positions."""
    (n, t), shape, x = real.shape, call.x.shape, real.to(call.x.device)
    channel = call.norm.channel_dim(len(shape))
    if len(shape) == 2:
        if shape[0] == n * t:
            return x.reshape(-1, 1).expand(shape)
        return torch.ones_like(call.x, dtype=torch.bool) if shape[0] == int(x.sum()) else None
    if shape[:2] == (t, n) and (t != n or channel == 1):
        return x.T.reshape(t, n, *[1] * (len(shape) - 2)).expand(shape)
    axes = [axis for axis in range(1, len(shape)) if shape[axis] == t]
    if shape[0] != n or not axes:
        return None
    axis = next((a for a in axes if a != channel), axes[0])
    return x.view(n, *[t if d == axis else 1 for d in range(1, len(shape))]).expand(shape)


def real_statistics(call: Call, mask: Mask | None) -> Tensor:
    """Which statistics of a call are of real tokens, (statistics,): not those that the mask leaves out, nor those of
    positions of zeros at an end of a sample."""
    x = call.x
    real = laid(mask.real, call) if mask is not None and x.dim() > 1 else None
    if real is None:
        real = torch.ones_like(x, dtype=torch.bool)
    if call.norm.kind == "sample" and x.dim() == 3:
        zero = (x == 0).all(call.norm.channel_dim(3))  # (N, T)
        ends = zero.cumprod(1) + zero.flip(1).cumprod(1).flip(1) > 0
        real = real & ~(ends & ~zero.all(1, keepdim=True)).unsqueeze(call.norm.channel_dim(3))
    return call.norm.groups(real.to(torch.float32)).amax(1) > 0
