"""What the forward pass makes of the norms: skipped, repeated, over another axis, without gradients, or cutting off the
input."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.finding import Found, finding
from normexp.check.network import Network
from normexp.check.trace import TINY, Place, trace
from normexp.models.sites import EMBEDDINGS
from normexp.monitors.guard import weights

MOVED = 0.1  # of its size, by which each weight is moved at random, so that no number is 0 or 1 by its start


@finding
def input_ignored(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that subtracts the mean of what is averaged right behind it leaves its shift alone, whatever the input
    was: InstanceNorm before global pooling, for one."""
    share = spread(network, [])
    if share <= limit.share:
        places = list(
            dict.fromkeys(call.place for call in network.trace.calls if call.place in network.places)
        )
        alone = [place.path for place in places if spread(network, [place]) > limit.share]
        if alone or spread(network, places) > limit.share:
            yield Found(share, alone or [place.path for place in places])


def spread(network: Network, without: list[Place]) -> float:
    """How much the outputs of samples differ, as a share of their size, for weights near those of the network, with
    some norms made the identity."""
    with network.quiet(train=False) as step, torch.no_grad():
        torch.manual_seed(0)
        for place in without:
            place.module.register_forward_hook(keep_input)
        values = {p: moved(p.data) for p in step.parameters() if p.is_floating_point()}
        with weights(values):
            y = network.output(network.batches.training)
    return float((y - y.mean(0)).norm() / y.norm().clamp_min(TINY))


def moved(p: Tensor) -> Tensor:
    """A weight, moved at random by a share of its size."""
    size = float(p.float().square().mean().sqrt()) or 1.0
    return p + (MOVED * size * torch.randn(p.shape)).to(p)


def keep_input(module: nn.Module, args: tuple, output: Any) -> Any:
    """A hook that makes a norm the identity."""
    return args[0] if args and isinstance(args[0], Tensor) else output


@finding
def batch_in_eval(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without running statistics a BatchNorm normalizes with the batch in eval mode, too: what is predicted for a
    sample depends on the others that come with it."""
    calls = [c.place for c in network.trace.calls if c.place.kind == "batch" and not c.place.tracked]
    if not calls:
        return
    half = network.samples // 2
    chosen = [i if i < half else i % max(half, 1) for i in range(network.samples)]
    with network.quiet(train=False), torch.no_grad():
        y = network.output(network.batches.training)
    with network.quiet(train=False), torch.no_grad():
        other = network.output(
            apply_to_collection(network.batches.training, Tensor, lambda x: x[chosen] if x.ndim else x)
        )
    change = float((y - other)[:half].norm() / y[:half].norm().clamp_min(TINY))
    if change > limit.change:
        yield Found(change, dict.fromkeys(place.path for place in calls))


@finding
def nothing_learns(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Where no gradient is recorded, the norm and all before it stay as they are."""
    trace, names = network.trace, [name for name, p in network.root.named_parameters() if p.requires_grad]
    learning = {call.place for call in trace.calls if call.learns} | {
        place for place in network.places if place.path in trace.recomputed
    }
    silent = []
    for place in dict.fromkeys(call.place for call in trace.calls):
        own = [name for name in names if name.rpartition(".")[0] == place.path]
        lost = bool(own) and trace.without_gradient.issuperset(own)
        unrecorded = place not in learning and (lost or (not own and trace.without_gradient))
        if unrecorded or (lost and not network.guessed):
            silent.append(place.path)
    if silent:
        yield Found(len(silent), silent, of=len(network.places), lost=len(trace.without_gradient))


@finding
def never_called(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that the forward pass does not reach normalizes nothing, and its gain and shift are saved as they were
    made."""
    names = network.trace.without_gradient
    called = {call.place for call in network.trace.calls} | {p for p in network.places if p.kind == "none"}
    idle = []
    for place in network.places:
        own = {name for name, _ in network.root.named_parameters() if name.rpartition(".")[0] == place.path}
        if place not in called and own <= names:
            idle.append(place)
    if idle:  # LayerDrop, for one, leaves layers out in training mode only
        with network.quiet(train=False) as step:
            called |= {call.place for call in trace(step, network.batches.training, network.places).calls}
    if paths := [place.path for place in idle if place not in called]:
        yield Found(len(paths), paths, of=len(network.places))


@finding
def twice_in_a_row(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """What a norm gave already has the mean and the variance of its gain and shift, so that a second one of its kind
    does nothing but scale and shift."""
    twice = [c for c in network.trace.calls if c.after is not None and c.after.kind == c.place.kind != "none"]
    twice = [call for call in twice if call.after is not call.place]
    if twice:
        first = {call.place.path: call.after.path for call in twice}
        yield Found(len(first), first, first=first.get)


@finding
def tokens_as_channels(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """BatchNorm1d takes (N, C, T). Given (N, T, C) it normalizes each position over the channels, and stops with an
    error at any other length; where T = C nothing shows."""
    last, wrong = None, []
    for call in network.trace.calls:
        module, x = call.place.module, call.x
        last = call.maker or last
        square = x.dim() == 3 and x.shape[1] == x.shape[2]
        rows = isinstance(last, (nn.Linear, nn.LayerNorm, nn.MultiheadAttention, *EMBEDDINGS))
        if isinstance(module, nn.BatchNorm1d) and square and rows and x.stride(-1) == 1:
            wrong.append((call.place, x.shape[1]))
    if wrong:
        length = wrong[0][1]
        shorter = apply_to_collection(
            network.batches.training,
            Tensor,
            lambda x: x[:, :-1] if x.ndim > 1 and x.shape[1] == length else x,
        )
        with network.quiet(train=True) as step:
            attempt = trace(step, shorter, network.places)
        paths = dict.fromkeys(place.path for place, _ in wrong)
        if attempt.error is not None and attempt.inside in paths:
            yield Found(length, paths)


@finding
def moves_twice(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Activation checkpointing runs the forward pass again for the gradient, and BatchNorm in it counts the batch
    again. The outputs of the step are right; the running statistics follow the last batches more closely."""
    if paths := network.trace.recomputed:
        keep = next(place.keep for place in network.places if place.path == paths[0])
        if keep is None:
            yield Found(2, paths, "average")
        elif keep < 1:
            yield Found(2, paths, acts=1 - keep**2, momentum=1 - keep, same=1 - keep**0.5)


@finding
def scale_cancelled(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Weight normalization learns the length of each row of weights, and a norm of each channel behind it divides by
    that length again: it changes nothing but the size of the steps."""
    pairs = {}
    for call in network.trace.calls:
        owners = [call.maker, getattr(getattr(call.maker, "parametrizations", None), "weight", [None])[0]]
        weighted = hasattr(owners[0], "weight_g") or type(owners[1]).__name__ == "_WeightNorm"
        if weighted and call.place.kind in ("batch", "instance"):
            pairs[call.place.path] = next(path for path, m in network.modules.items() if m is call.maker)
    if pairs:
        yield Found(len(pairs), pairs, maker=pairs.get)
