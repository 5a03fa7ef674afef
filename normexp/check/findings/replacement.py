"""Which norm a fix puts in place of others, as code: one that has enough values there."""

import math
from collections.abc import Iterable

from normexp.check.finding import listed
from normexp.check.network import Network
from normexp.check.norm_sites import NormSite
from normexp.check.trace import Call
from normexp.norms.layers.successor import groups_by_default

USUAL = 32  # groups that `swap` makes, or their greatest common divisor with the channels
ENOUGH = 8  # values: as the samples of small_batch
LEAST = 3  # values: see one_value


def swap_code(network: Network, norms: Iterable[NormSite], id: str = "", *, groups: bool = True) -> str:
    """`normexp.norms.swap(...)` for some norms: GroupNorm with as many groups as leave each `ENOUGH` values in the
    inputs of this pass, else LayerNorm. Empty if swap cannot replace them all, or if no norm of single samples has
    `LEAST` values there.

    Args:
        id: of a finding whose layers these norms are.
        groups: whether GroupNorm will do; otherwise it is LayerNorm.
    """
    norms = list(dict.fromkeys(norms))
    calls = [call for call in network.calls if call.norm in norms]
    if not calls or not all(norm.swappable for norm in norms):
        return ""
    where = "" if set(norms) == set(network.norms) else f", where={listed([norm.path for norm in norms], id)}"
    for asked in (None, 16, 8, 4, 2) if groups else ():
        sizes = [(math.prod(call.x.shape[1:]), channels_of(call), groups_of(call, asked)) for call in calls]
        # A group of one channel is InstanceNorm, whose mean over pixels is the same for all samples.
        if all(values >= ENOUGH * n and channels >= 2 * n and n > 1 for values, channels, n in sizes):
            options = "" if asked is None else f", num_groups={asked}"
            return f'normexp.norms.swap(model, "groupnorm"{options}{where})'
    enough = min(map(values_in_layer_norm, calls)) >= LEAST
    return f'normexp.norms.swap(model, "layernorm"{where})' if enough else ""


def groups_of(call: Call, asked: int | None) -> int:
    """The groups that `swap` gives the norm of a call."""
    if asked is None and call.norm.kind == "group":
        return call.norm.layer.groups
    channels = channels_of(call)
    return groups_by_default(USUAL, channels) if asked is None else math.gcd(asked, channels)


def channels_of(call: Call) -> int:
    """How many channels the input of a call has."""
    return call.x.shape[call.norm.channel_dim(call.x.dim())]


def values_in_layer_norm(call: Call) -> int:
    """Over how many values LayerNorm normalizes in place of a call's norm."""
    return call.x.shape[-1] if call.norm.channel_dim(call.x.dim()) > 1 else math.prod(call.x.shape[1:])
