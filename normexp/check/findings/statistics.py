"""Batch statistics and running statistics: BatchNorm and its relatives."""

import math
from collections.abc import Iterable
from types import SimpleNamespace

import torch

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import PROBE, matched
from normexp.check.network import Network, modes
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, Call

WORST = 8  # layers that a finding about the whole network names


@finding
def statistics_unused(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics start at mean 0 and variance 1. Until they have seen batches, eval mode divides by 1."""
    new = [place.path for place in network.tracked if place.seen == 0]
    if new:
        yield Found(len(new), new, of=len(network.tracked))


@finding
def mode_gap(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """In training BatchNorm divides by the batch's deviation, in eval mode by a running one. Where the two differ,
    the network computes another function when it is evaluated."""
    if not network.tracked:
        return
    if all(place.seen == 0 or not place.follows_batches for place in network.tracked):
        raise NotChecked("the running statistics have seen no batch; check again after some training")
    if network.loss == PROBE:
        raise NotChecked("pass loss=, or batches with targets")
    measured = network.modes
    gap, finite = measured.running - measured.batch, math.isfinite(measured.running)
    if not finite or gap > limit.gap * abs(measured.batch) + limit.floor:
        closed = measured.precise - measured.batch < limit.closed * gap or not finite
        worst = sorted(measured.apart, key=measured.apart.__getitem__, reverse=True)[:WORST]
        yield Found(gap, worst, "closed" if closed else "open", **vars(measured))


@finding
def statistics_cold(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Each batch moves a running statistic by momentum of the way. With a small momentum and few batches, the
    start (mean 0, variance 1) is still in it when you validate."""
    moving = [p for p in network.tracked if p.follows_batches and p.keep is not None]
    if moving:
        steps = updates_before_validation(network)
        keeps = {place.path: place.keep for place in moving}
        left = ((place.path, place.keep ** (steps + (place.seen or 0))) for place in moving)
        enough = math.ceil(100 * (1 - limit.left ** (1 / steps))) / 100  # two digits
        yield from above(left, limit.left, steps=steps, momentum=lambda p: 1 - keeps[p], enough=enough)


def updates_before_validation(network: Network) -> int:
    """Batches that the running statistics see before the first validation."""
    if network.options.steps is not None:
        return network.options.steps
    if network.training_loader is None:
        raise NotChecked("pass a DataLoader, or steps=, the batches before the first validation")
    return len(network.training_loader)


@finding
def small_batch(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """BatchNorm's statistics come from the samples of one forward pass on one device. Few samples make them noisy
    in training and wrong in eval mode. Accumulation adds up gradients, not statistics."""
    calls = [c for c in network.trace.calls if c.place.follows_batches and c.training]
    if not calls:
        return
    batch, step = network.batch_size, network.options.accumulate or 1
    least = min(calls, key=network.values)
    samples = least.place.virtual_batch or batch
    if least.place.synced:
        samples *= network.options.devices or 1
    if samples < limit.enough:
        more = f", also in a step of {batch * step} samples over {step} batches" if step > 1 else ""
        paths, case = dict.fromkeys(call.place.path for call in calls), "few" if samples < limit.few else ""
        yield Found(samples, paths, case, least.place.path, values=network.values(least), more=more)
    if step > 1 and (keep := least.place.keep) is not None and keep < 1:
        same = 1 - keep ** (1 / step)
        yield Found(1 - keep**step, case="accumulated", step=step, momentum=1 - keep, same=same)


@finding
def sync_needed(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without SyncBatchNorm each device normalizes with its own part of the batch, and only the buffers of the
    first one are saved."""
    lone = [p.path for p in network.places if p.follows_batches and not p.synced]
    if lone:
        batch, devices = network.batch_size, network.options.need("devices")
        if devices > 1 and batch < limit.enough:
            yield Found(batch, lone, devices=devices, together=devices * batch)


@finding
def frozen_thaws(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """requires_grad=False freezes gain and shift, not the running statistics; eval() does, until the next
    train()."""
    follows = [p for p in network.tracked if p.follows_batches]
    frozen = [p for p in follows if not getattr(getattr(p.module, "weight", None), "requires_grad", True)]
    calls = [call for call in network.trace.calls if call.place in frozen and call.training]
    yield from above(((call.place.path, moves(call)) for call in calls), case="moving", of=len(follows))
    if network.root.training:
        resting = [p for p in follows if not p.module.training]
        with network.quiet(train=True):
            network.root.train()
            thaw = [p.path for p in resting if p.module.training]
        if thaw:
            code = network.code(thaw[0]).replace("model", "self", 1)
            yield Found(len(thaw), thaw, "thawing", of=len(network.tracked), own=code)


def moves(call: Call) -> float:
    """How far one batch moves the running mean of a call's norm, in running deviations (root mean square)."""
    place, module = call.place, call.place.module
    step = 1 - place.keep if place.keep is not None else 1 / ((place.seen or 0) + 1)
    if call.mean.shape != module.running_mean.shape:
        return 0.0
    apart = (call.mean - module.running_mean) / (module.running_var + place.eps).sqrt()
    return float(step * apart.square().mean().sqrt())


@finding
def shared_statistics(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """One BatchNorm at two places keeps one running mean and variance for two distributions; eval mode uses their
    mixture at both."""
    apart, uses = {}, {}
    # The calls of one norm in one call of the network. Two views of a batch are two calls of the network.
    together: dict[tuple[int, str], list[Call]] = {}
    for call in network.trace.calls:
        if call.place.tracked and call.place.follows_batches:
            together.setdefault((call.run, call.place.path), []).append(call)
    for (_, path), calls in sorted(together.items()):
        if len(calls) > 1 and len({call.mean.shape for call in calls}) == 1:
            means, variances = (torch.stack([getattr(c, name) for c in calls]) for name in ("mean", "var"))
            between = (means.amax(0) - means.amin(0)) / (variances.mean(0) + calls[0].place.eps).sqrt()
            ratio = ((variances.amax(0) + TINY) / (variances.amin(0) + TINY)).sqrt().log()
            apart[path] = max(float(x.square().mean().sqrt()) for x in (between, ratio))
            uses[path] = len(calls)
    kinds = {path: type(network.modules[path]).__name__ for path in apart}
    yield from above(apart.items(), limit.apart, uses=uses.get, name=kinds.get)


@finding
def stale_average(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Averaging weights (EMA, SWA) does not average what the weights make of the data: the copy's running
    statistics belong to other weights until they are estimated anew. How much that costs is not yet judged here."""
    if not network.tracked:
        return
    saved, theirs = matched(network.options.need("averaged"), network.root), network.modes.apart
    if not saved:
        raise ValueError("averaged=: has no parameter of the module; pass the averaged copy of this network")
    state = network.root.state_dict()
    with network.quiet(train=False) as step, torch.no_grad():
        copies = {name: value.to(state[name], copy=True) for name, value in saved.items()}
        # into attributes that `quiet` puts back
        network.root.load_state_dict(copies, strict=False, assign=True)
        measured = modes(step, network.batches, network.tracked)
    losses = f" The copy's loss is {measured.running:.4g}, and {measured.precise:.4g} with statistics estimated anew."
    stale = ((p, x) for p, x in measured.apart.items() if x > limit.beyond * theirs.get(p, 0.0))
    largest = max(theirs.values(), default=0.0)
    yield from above(stale, limit.apart, own=largest, losses="" if network.loss == PROBE else losses)
