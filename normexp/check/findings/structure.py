"""Where norms stand in a network: not called, of no use to what is in front of or behind them, unknown to the
optimizer."""

from collections.abc import Iterable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from normexp.check.finding import Found, finding
from normexp.check.inputs import split
from normexp.check.network import Network
from normexp.monitors.guard import loss_of

FEATURES_LAST = (nn.Linear, nn.Embedding, nn.LayerNorm)


@finding
def never_called(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that is built and not called changes nothing, and its parameters get no gradient."""
    called = {call.place.path for call in network.trace.calls}
    idle = [place.path for place in network.places if place.kind != "none" and place.path not in called]
    if idle:
        yield Found(len(idle), idle, of=len(network.places))


@finding
def input_ignored(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm of each sample removes what a pooling over the same axes would keep: behind InstanceNorm the mean of every
    channel is its shift, whatever the image shows."""
    first, other = network.batches.training, network.batches.held_out
    (x, target), (others, _) = split(first), split(other)
    if not (isinstance(x, Tensor) and isinstance(others, Tensor) and x.shape == others.shape):
        return
    if torch.equal(x, others) or any(p.ndim > 1 and not p.any() for p in network.root.parameters()):
        return  # one batch, or a layer that starts at zero
    # In training mode: with running statistics that have seen no batch, a deep network says nothing either.
    with network.quiet(train=True) as step, torch.no_grad():
        batches = [x, others] if isinstance(first, Tensor) else [(x, target), (others, target)]
        own, swapped = (float(loss_of(step, batch)) for batch in batches)
    if abs(own - swapped) <= limit.rounding * abs(own):
        yield Found(abs(own - swapped))


@finding
def nothing_learns(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Where the forward pass runs under no_grad, the norm and all layers in front of it get no gradient."""
    waiting = {
        place.path: place.module.training
        for place in network.places
        if any(p.requires_grad for p in place.module.parameters(recurse=False))
    }
    still = [path for path in waiting if path in network.trace.detached]
    if still:
        yield Found(len(still), still, of=len(waiting))


@finding
def batch_in_eval(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without running statistics BatchNorm uses those of the batch in eval mode, too: the prediction for one sample
    depends on the others."""
    paths = [
        place.path
        for place in network.places
        if place.kind == "batch" and getattr(place.module, "track_running_stats", True) is False
    ]
    if paths:
        yield Found(len(paths), paths)


@finding
def not_optimized(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Parameters that no group of the optimizer holds stay as they start."""
    own = [
        (f"{place.path}.{name}", p)
        for place in network.places
        for name, p in place.module.named_parameters(recurse=False)
        if p.requires_grad
    ]
    if own:
        held = {p for group in network.options.need("optimizer").param_groups for p in group["params"]}
        if absent := [name for name, p in own if p not in held]:
            yield Found(len(absent), absent, of=len(own))


@finding
def tokens_as_channels(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """BatchNorm1d takes axis 1 of (N, T, C) for the channels. Where T = C it runs, and normalizes each position of the
    text over its features."""
    paths = [
        call.place.path
        for call in network.trace.calls
        if isinstance(call.place.module, nn.BatchNorm1d)
        and call.x.dim() == 3
        and call.x.shape[1] == call.x.shape[2]
        and call.x.stride(2) == 1  # not turned: the features are last
        and isinstance(call.maker, FEATURES_LAST)
    ]
    if paths := list(dict.fromkeys(paths)):
        yield Found(len(paths), paths)


@finding
def twice_in_a_row(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A second BatchNorm gets what the first made: mean and variance are those of its gain and shift, so it takes them
    away again."""
    batch = {place.module for place in network.places if place.kind == "batch"}
    paths = [c.place.path for c in network.trace.calls if c.place.module in batch and c.maker in batch]
    if paths := list(dict.fromkeys(paths)):
        yield Found(len(paths), paths)


@finding
def moves_twice(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """torch.utils.checkpoint computes a layer again in the backward pass. A BatchNorm inside moves its running
    statistics both times."""
    keeps = {place.path: place.keep for place in network.tracked if place.follows_batches}
    paths = [path for path in network.trace.recomputed if keeps.get(path) is not None]
    if paths:
        keep = float(keeps[paths[0]] or 0.0)
        yield Found(2, paths, momentum=1 - keep, same=1 - keep**0.5)
