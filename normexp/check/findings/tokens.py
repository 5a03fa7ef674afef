"""Sequences: padding inside statistics, and statistics that show a causal model the future."""

import math
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor

from normexp.check.finding import Found, above, finding
from normexp.check.findings.causal import entrance, masks_later
from normexp.check.findings.masks import first_input, laid, mask_of, with_input
from normexp.check.network import Network
from normexp.check.places import Place
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, Call
from normexp.monitors.batches import tensor_of


@finding
def padding_counted(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Padding that enters the statistics pulls them toward its own value, so a sample's output depends on how long
    the others in its batch are."""
    mixes = [c for c in network.calls if c.place.mixes_positions(c.x.shape, network.samples)]
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
    told = [call for call in mixes if not call.masked]
    shown = [(c, lies) for c in told if c.understood and (lies := laid(mask.real, c)) is not None]
    share = float(1 - mask.real.float().mean())
    moved = [(call, shifted_by(call, lies)) for call, lies in shown]
    found = list(above(moved, limit.moved, share=share, source=mask.source))
    for worst in found:
        worst.case = (
            "" if all(c.place.swappable for c, _ in moved if c.place.path in worst.layers) else "by_hand"
        )
    if not found and len(shown) < len(told):
        other = next(call for call in told if call not in [call for call, _ in shown])
        raise NotChecked(
            f"the mask ({mask.source}) is {tuple(mask.real.shape)}, and {other.place.path} gets "
            f"{tuple(other.x.shape)}; pass mask= of the samples and positions there"
        )
    yield from found


def shifted_by(call: Call, real: Tensor) -> float:
    """How far padding moves the statistics of a call (root mean square over statistics), in deviations of the real
    tokens."""
    rows, weights = call.place.groups(call.x), call.place.groups(real.to(call.x.dtype))
    kept = weights.sum(1) > 0
    rows, weights = rows[kept], weights[kept]
    count = weights.sum(1)
    mean = (rows * weights).sum(1) / count
    std = (((rows - mean[:, None]) * weights).square().sum(1) / count + call.place.eps).sqrt().clamp_min(TINY)
    apart = (rows.mean(1) - mean) / std
    wider = (rows.var(1, correction=0) + call.place.eps).sqrt() / std - 1
    return max(float(moves.square().mean().sqrt()) for moves in (apart, wider))


@finding
def sees_future(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Statistics over the positions of a sequence tell an early position about later ones, past the causal mask:
    the training loss then flatters the model, and generating gives something else."""
    mixes = [c for c in network.calls if c.place.mixes_positions(c.x.shape, network.samples)]
    if (x := first_input(network)) is None:
        raise NotChecked(
            "the positions of a class of one's own hide; pass tokens (N, T) or vectors (N, T, C)"
        )
    rows_or_images = x.dim() > 3 or x.dim() < 2 or (x.dim() == 2 and x.is_floating_point())
    if rows_or_images or network.options.causal is False:
        return
    if math.isnan(leak := change(network, [])):
        if mixes or network.options.causal:
            raise NotChecked(f"no axis of the output has the positions of the input {tuple(x.shape)}")
        return  # one answer for a sequence
    if leak <= limit.leak:
        return
    guilty = [call for call in mixes if leaks(network, call, x.shape[1:], limit.leak)]
    norms = list(dict.fromkeys(call.place for call in guilty))
    # A network that attends to later positions by design still does without its norms, and one that takes each position
    # by itself attends to no earlier ones.
    if guilty and change(network, norms) <= limit.leak < change(network, norms, earlier=True):
        yield Found(guilty, leak, "" if all(place.swappable for place in norms) else "by_hand")
    elif network.options.causal or masks_later(network):
        axis = 1 if x.dim() == 2 or x.shape[1] in output_at(network, x, []).shape[1:] else 2
        other = altered(x, parted(x, axis, False))
        path = entrance(network, (x, other), x.shape[axis], limit.leak)
        yield Found([path] if path else guilty, leak, "elsewhere", where=path or type(network.root).__name__)
    else:
        raise NotChecked("later inputs change earlier outputs; pass causal=True (--causal) if they must not")


def parted(x: Tensor, axis: int, earlier: bool) -> Tensor:
    """True at positions behind the middle one along an axis, or before it, in the shape of x."""
    at = torch.arange(x.shape[axis], device=x.device).view([-1 if d == axis else 1 for d in range(x.dim())])
    middle = x.shape[axis] // 2
    return (at < middle if earlier else at > middle).expand(x.shape)


def altered(x: Tensor, where: Tensor) -> Tensor:
    """x with other numbers where it is asked: tokens of the batch, or normal noise of its size."""
    torch.manual_seed(0)
    if x.is_floating_point():
        return torch.where(where, x + torch.randn_like(x) * (1 + x.std(correction=0)), x)
    other = x.flatten()[torch.randperm(x.numel(), device=x.device)].view(x.shape)
    return torch.where(where, torch.where(other == x, x.flip(0, 1), other), x)


def output_at(network: Network, x: Tensor, without: list[Place]) -> Tensor:
    """The output of a training pass with x in place of the first input; some norms may be made the identity."""
    with network.quiet(train=True, without=without), torch.no_grad():
        return network.forward(with_input(network, x)).double()


def change(network: Network, without: list[Place], *, earlier: bool = False) -> float:
    """How much the output up to the middle position changes with the input behind it; `earlier` looks the other way.
    Share of its size. The norms in `without` are made the identity. Not a number if input and
    output have no axis of positions in common."""
    x = cast(Tensor, first_input(network))
    plain, shares = output_at(network, x, without), []
    for into in (1, 2) if x.dim() == 3 else (1,):
        axes = [axis for axis in (1, 2) if plain.dim() == 3 and plain.shape[axis] == x.shape[into] > 2]
        if axes:
            other = output_at(network, altered(x, parted(x, into, earlier)), without)
            for axis in axes:
                kept = ~parted(plain, axis, earlier)
                shares.append(float((other - plain)[kept].norm() / plain[kept].norm().clamp_min(TINY)))
    return min(shares, default=math.nan)


def leaks(network: Network, call: Call, sizes: Sequence[int], limit: float) -> bool:
    """Whether the output of a norm alone, at some position, changes with its input at later ones; also if its input has
    no axis of so many positions, so that it cannot be told."""
    n, tried = len(call.x), []
    for t in sizes:
        rows = network.samples or n
        later = laid(parted(torch.empty(rows, t), 1, False), call) if rows * t != 0 else None
        if later is not None and bool(later.any()) and bool((~later).any()):
            with network.quiet(train=True), torch.no_grad():
                both = []
                for x in (call.x, altered(call.x, later)):
                    torch.manual_seed(0)
                    both.append(call.again(call.place.module, x.clone()))
            a, b = (tensor_of(y).double() for y in both)
            if a.shape == call.x.shape:
                kept = ~later
                tried.append(float((a - b)[kept].norm() / a[kept].norm().clamp_min(TINY)) > limit)
    return not tried or any(tried)
