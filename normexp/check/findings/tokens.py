"""Sequences: padding inside statistics, and statistics that show a causal model the future."""

import math
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor

from normexp.check.finding import Found, above, finding, path_of
from normexp.check.findings.causal import masks_later
from normexp.check.findings.masks import laid, mask_of
from normexp.check.findings.perturb import (
    altered,
    entrance,
    first_input,
    least_moved,
    moved,
    output_at,
    with_input,
)
from normexp.check.network import Network
from normexp.check.norm_sites import NormSite
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, Call
from normexp.monitors.batches import tensor_of

LEAST_POSITIONS = 3  # of a sequence that has some behind its middle one


@finding
def padding_counted(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Padding that enters the statistics pulls them toward its own value, so a sample's output depends on how long
    the others in its batch are."""
    mixes = [c for c in network.calls if c.norm.mixes_positions(c.x.shape, network.samples)]
    if not mixes:
        return
    mask, x = mask_of(network), first_input(network)
    if mask is None:
        if x is not None and x.dim() > 3:
            return  # images
        raise NotChecked("pass mask=, (N, T), True at real tokens")
    if mask.real.dim() != 2:
        raise NotChecked(f"mask= has the shape {tuple(mask.real.shape)}; pass (N, T), True at real tokens")
    if bool(mask.real.all()):
        raise NotChecked(f"no position of the batch is padding ({mask.source}); pass a batch with padding")
    unmasked = [call for call in mixes if not call.masked]
    fitting = [(c, lies) for c in unmasked if c.understood and (lies := laid(mask.real, c)) is not None]
    share = float(1 - mask.real.float().mean())
    found = list(
        above(((c, shifted_by(c, lies)) for c, lies in fitting), limit.moved, share=share, source=mask.source)
    )
    for worst in found:
        swappable = (c.norm.swappable for c, _ in fitting if c.norm.path in worst.layers)
        worst.case = "" if all(swappable) else "by_hand"
    if not found and len(fitting) < len(unmasked):
        other = next(call for call in unmasked if call not in [call for call, _ in fitting])
        raise NotChecked(
            f"the mask ({mask.source}) is {tuple(mask.real.shape)}, and {other.norm.path} gets "
            f"{tuple(other.x.shape)}; pass mask= of the samples and positions there"
        )
    yield from found


def shifted_by(call: Call, real: Tensor) -> float:
    """How far padding moves the statistics of a call (root mean square over statistics), in deviations of the real
    tokens."""
    rows, weights = call.norm.groups(call.x), call.norm.groups(real.to(call.x.dtype))
    kept = weights.sum(1) > 0
    rows, weights = rows[kept], weights[kept]
    count = weights.sum(1)
    mean, eps = (rows * weights).sum(1) / count, call.norm.layer.eps
    std = (((rows - mean[:, None]) * weights).square().sum(1) / count + eps).sqrt().clamp_min(TINY)
    apart = (rows.mean(1) - mean) / std
    wider = (rows.var(1, correction=0) + eps).sqrt() / std - 1
    return max(float(moves.square().mean().sqrt()) for moves in (apart, wider))


@finding
def sees_future(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Statistics over the positions of a sequence tell an early position about later ones, past the causal mask:
    the training loss then flatters the model, and generating gives something else."""
    mixes = [c for c in network.calls if c.norm.mixes_positions(c.x.shape, network.samples)]
    if (x := first_input(network)) is None:
        raise NotChecked(
            "the positions of a class of one's own hide; pass tokens (N, T) or vectors (N, T, C)"
        )
    rows_or_images = x.dim() > 3 or x.dim() < 2 or (x.dim() == 2 and x.is_floating_point())
    if rows_or_images or network.options.causal is False:
        return
    if x.dim() == 3 and any(getattr(m, "batch_first", True) is False for m in network.modules.values()):
        raise NotChecked("axis 0 of the input may hold the positions (batch_first=False); pass (N, T, C)")
    along = moved_along(network, [], earlier=False)
    if not math.isfinite(leak := least(network, along, [])):
        if min(x.shape[1:]) < LEAST_POSITIONS and output_at(network, x).dim() == 3:
            raise NotChecked(
                f"an input {tuple(x.shape)} may have too few positions to have later ones; pass sequences of "
                f"{LEAST_POSITIONS} and more"
            )
        if mixes or network.options.causal:
            raise NotChecked(f"no axis of the output has the positions of the input {tuple(x.shape)}")
        return  # one answer for a sequence
    if leak <= limit.leak:
        yield from in_eval_mode(network, x, along, limit.leak)
        return
    if not mixes and min(along.values()) <= limit.leak:  # each position by itself, or each channel
        positions = [axis for axis in along if x.shape[axis] in positions_of_norms(network)]
        if network.options.causal and len(positions) != 1:
            raise NotChecked(
                "along one axis of the input nothing mixes, along the other all does; which has positions? Pass"
                " sequences with another length than their number of channels"
            )
        if len(positions) != 1 or along[positions[0]] <= limit.leak:
            return
    guilty = [call for call in mixes if leaks(network, call, x.shape[1:], limit.leak)]
    norms = list(dict.fromkeys(call.norm for call in guilty))
    # A network that attends to later positions by design still does without its norms, and one that takes each position
    # by itself attends to no earlier ones.
    if guilty and change(network, norms) <= limit.leak < change(network, norms, earlier=True):
        yield Found(guilty, leak, "" if all(norm.swappable for norm in norms) else "by_hand")
    elif network.options.causal or masks_later(network):
        axis = 1 if x.dim() == 2 or x.shape[1] in output_at(network, x).shape[1:] else 2
        path = entered(network, x, axis, limit.leak)
        paths = [path] if path else list(map(path_of, guilty))
        yield Found(paths, leak, "elsewhere", where=next(iter(paths), type(network.root).__name__))
    else:
        raise NotChecked("later inputs change earlier outputs; pass causal=True (--causal) if they must not")


def in_eval_mode(network: Network, x: Tensor, along: dict[int, float], limit: float) -> Iterable[Found]:
    """The finding on a network that is causal in training mode, `along` its axes of positions, and not in eval mode.
    BatchNorm takes no statistic there, so that it shows nothing."""
    leaks_there = {
        axis: leak
        for axis, leak in moved_along(network, [], earlier=False, train=False).items()
        if along.get(axis, math.inf) <= limit < leak < math.inf
    }
    if not leaks_there:
        return
    back = moved_along(network, [], earlier=True)
    for axis, leak in leaks_there.items():
        # A sequence: channels that do not mix, or single positions, do not mix back either.
        if back[axis] > limit:
            path = entered(network, x, axis, limit, train=False)
            yield Found([path] if path else [], leak, "eval", where=path or type(network.root).__name__)
            return


def entered(network: Network, x: Tensor, axis: int, limit: float, *, train: bool = True) -> str:
    """Path of the first layer that lets later positions change earlier ones; empty if it is none."""
    both = [with_input(network, inputs) for inputs in (x, altered(x, parted(x, axis)))]
    return entrance(network, both, lambda y: rest(y, x.shape[axis]), limit, train=train)


def positions_of_norms(network: Network) -> set[int]:
    """How many positions the norms get, as far as their inputs have three axes."""
    return {c.x.shape[3 - c.norm.channel_dim(3)] for c in network.calls if c.x.dim() == 3}


def parted(x: Tensor, axis: int, earlier: bool = False) -> Tensor:
    """True at positions behind the middle one along an axis, or before it, in the shape of x."""
    at = torch.arange(x.shape[axis], device=x.device).view([-1 if d == axis else 1 for d in range(x.dim())])
    middle = x.shape[axis] // 2
    return (at < middle if earlier else at > middle).expand(x.shape)


def rest(x: Tensor, positions: int, earlier: bool = False) -> list[Tensor]:
    """What `parted` leaves of x, along each axis behind the first that has so many positions."""
    axes = [axis for axis in range(1, x.dim()) if x.shape[axis] == positions]
    middle = positions // 2
    return [x.narrow(a, *((middle, positions - middle) if earlier else (0, middle + 1))) for a in axes]


def change(network: Network, without: list[NormSite], *, earlier: bool = False) -> float:
    """How much the output up to the middle position changes with the input behind it; `earlier` looks the other way.
    Share of its size. The norms in `without` are made the identity. Infinite if input and output have no axis of
    positions in common."""
    return least(network, moved_along(network, without, earlier=earlier), without, earlier=earlier)


def least(
    network: Network, shares: dict[int, float], without: list[NormSite], *, earlier: bool = False
) -> float:
    """The least that `moved_along` gives, but not of an axis along which nothing changes either way: those are channels
    that do not mix, or positions of a network that takes each by itself."""
    if len(shares) > 1 and not all(shares.values()):
        back = moved_along(network, without, earlier=not earlier)
        shares = {axis: share for axis, share in shares.items() if share or back[axis]} or shares
    return min(shares.values(), default=math.inf)


def moved_along(
    network: Network, without: list[NormSite], *, earlier: bool, train: bool = True
) -> dict[int, float]:
    """Axis of positions, or of channels -> `change` along it. Where one axis of two is as short as a sequence of one
    token, or as one channel, the other is only asked if norms take it for positions."""
    x = cast(Tensor, first_input(network))
    plain, shares = output_at(network, x, without, train=train), {}
    short = x.dim() == 3 and min(x.shape[1:]) < LEAST_POSITIONS
    for axis in (1, 2) if x.dim() == 3 else (1,):
        t = x.shape[axis]
        asked = not short or t in positions_of_norms(network)
        if plain.dim() == 3 and asked and t >= LEAST_POSITIONS and t in plain.shape[1:]:
            other = output_at(network, altered(x, parted(x, axis, earlier)), without, train=train)
            shares[axis] = least_moved(rest(plain, t, earlier), rest(other, t, earlier))
    return shares


def leaks(network: Network, call: Call, sizes: Sequence[int], limit: float) -> bool:
    """Whether the output of a norm alone, at some position, changes with its input at later ones; also if its input has
    no axis of so many positions, so that it cannot be told."""
    n, tried = len(call.x), []
    for t in sizes:
        rows = network.samples or n
        later = laid(parted(torch.empty(rows, t), 1), call) if rows * t != 0 else None
        if later is not None and bool(later.any()) and bool((~later).any()):
            with network.quiet(train=True), torch.no_grad():
                both = []
                for x in (call.x, altered(call.x, later)):
                    torch.manual_seed(0)
                    both.append(call.again(call.norm.module, x.clone()))
            a, b = (tensor_of(y).double() for y in both)
            if a.shape == call.x.shape:
                tried.append(moved(a[~later], b[~later]) > limit)
    return not tried or any(tried)
