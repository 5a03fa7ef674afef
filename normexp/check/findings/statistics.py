"""Batch statistics and running statistics: BatchNorm and its relatives."""

import math
from collections.abc import Iterable
from itertools import groupby
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import matched
from normexp.check.result import NotChecked
from normexp.check.run import Network, modes
from normexp.check.trace import Call


@finding
def statistics_unused(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics start at mean 0 and variance 1. Until they have seen batches, eval mode divides by 1."""
    new = [place.path for place in network.tracked if place.fresh]
    if new:
        yield Found(len(new), new, of=len(network.tracked))


@finding
def mode_gap(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """In training BatchNorm divides by the batch's deviation, in eval mode by a running one. Where the two differ,
    the network computes another function when it is evaluated."""
    if not network.tracked:
        return
    if all(place.fresh or not place.follows_batches for place in network.tracked):
        raise NotChecked("the running statistics have seen no batch; check again after some training")
    if not network.has_loss:
        raise NotChecked("pass loss=, or batches with targets")
    found = network.modes
    gap, finite = found.running - found.batch, math.isfinite(found.running)
    if not finite or gap > limit.gap * abs(found.batch) + limit.floor:
        closed = found.precise - found.batch < limit.closed * gap or not finite
        worst = sorted(found.apart, key=found.apart.__getitem__, reverse=True)[:8]
        yield Found(gap, worst, case="closed" if closed else "open", **vars(found))


@finding
def statistics_cold(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Each batch moves a running statistic by momentum of the way. With a small momentum and few batches, the
    start (mean 0, variance 1) is still in it when you validate."""
    keeps = {p.path: p.keep for p in network.tracked if p.follows_batches and p.keep is not None}
    if not keeps:
        return
    steps = updates_before_validation(network)
    left = {p.path: keeps[p.path] ** (steps + p.seen) for p in network.tracked if p.path in keeps}
    enough = math.ceil(100 * (1 - limit.left ** (1 / steps))) / 100
    for worst in above(left, limit.left):
        yield Found(*worst, steps=steps, momentum=1 - keeps[worst.path], enough=enough)


def updates_before_validation(network: Network) -> int:
    """Batches that the running statistics see before the first validation."""
    if network.asked.steps is not None:
        return network.asked.steps
    if isinstance(network.loader, DataLoader):
        return len(network.loader)
    if hasattr(network.loader, "train_dataloader"):
        return len(network.loader.train_dataloader())
    raise NotChecked("pass a DataLoader, or steps=, the batches before the first validation")


@finding
def small_batch(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """BatchNorm's statistics come from the samples of one forward pass on one device. Few samples make them noisy
    in training and wrong in eval mode. Accumulation adds up gradients, not statistics."""
    calls = [c for c in network.trace.calls if c.place.follows_batches and c.training]
    if not calls:
        return
    batch, step = network.batch_size, network.asked.accumulate or 1
    least = min(calls, key=network.values)
    samples = least.place.virtual_batch or batch
    if least.place.synced:
        samples *= network.asked.devices or 1
    if samples < limit.enough:
        yield Found(
            samples,
            dict.fromkeys(call.place.path for call in calls),
            least.place.path,
            "few" if samples < limit.few else "",
            values=network.values(least),
            more=f", also in a step of {batch * step} samples over {step} batches" if step > 1 else "",
        )
    if step > 1 and (keep := least.place.keep) is not None and keep < 1:
        same = 1 - keep ** (1 / step)
        yield Found(1 - keep**step, case="accumulated", step=step, momentum=1 - keep, same=same)


@finding
def sync_needed(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without SyncBatchNorm each device normalizes with its own part of the batch, and only the buffers of the
    first one are saved."""
    lone = [p.path for p in network.places if p.follows_batches and not p.synced]
    batch, devices = network.batch_size, network.asked.devices
    if lone and devices is None:
        raise NotChecked("pass devices=, the processes that train together")
    if lone and devices > 1 and batch < limit.enough:
        yield Found(batch, lone, devices=devices, together=devices * batch)


@finding
def frozen_thaws(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """requires_grad=False freezes gain and shift, not the running statistics; eval() does, until the next
    train()."""
    follows = [p for p in network.tracked if p.follows_batches]
    frozen = [
        p for p in follows if (w := getattr(p.module, "weight", None)) is not None and not w.requires_grad
    ]
    moving = {c.place.path: moves(c) for c in network.trace.calls if c.place in frozen and c.training}
    for worst in above(moving):
        yield Found(*worst, case="moving")
    if network.root.training:
        resting = [p for p in follows if not p.module.training]
        with network.quiet(train=True):
            network.root.train()
            thaw = [p.path for p in resting if p.module.training]
        if thaw:
            own = network.code(thaw[0]).replace("model", "self", 1)
            yield Found(len(thaw), thaw, case="thawing", of=len(network.tracked), own=own)


def moves(call: Call) -> float:
    """How far one batch moves the running mean of a call's norm, in running deviations (root mean square)."""
    place, module = call.place, call.place.module
    step = 1 - place.keep if place.keep is not None else 1 / (place.seen + 1)
    if call.mean.shape != module.running_mean.shape:
        return 0.0
    apart = (call.mean - module.running_mean) / (module.running_var + place.eps).sqrt()
    return float(step * apart.square().mean().sqrt())


@finding
def shared_statistics(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """One BatchNorm at two places keeps one running mean and variance for two distributions; eval mode uses their
    mixture at both."""
    kept = [c for c in network.trace.calls if c.place.tracked and c.place.follows_batches]
    apart, uses = {}, {}
    # The calls of one norm in one call of the network. Two views of a batch are two calls of the network.
    for (_, path), group in groupby(sorted(kept, key=run_and_path), run_and_path):
        calls = list(group)
        if len(calls) > 1 and len({call.mean.shape for call in calls}) == 1:
            means, variances = (torch.stack([getattr(c, name) for c in calls]) for name in ("mean", "var"))
            scale = (variances.mean(0) + calls[0].place.eps).sqrt()
            between = (means.amax(0) - means.amin(0)) / scale
            ratio = ((variances.amax(0) + 1e-30) / (variances.amin(0) + 1e-30)).sqrt().log()
            apart[path] = max(float(x.square().mean().sqrt()) for x in (between, ratio))
            uses[path] = len(calls)
    for worst in above(apart, limit.apart):
        yield Found(*worst, uses=uses[worst.path], name=type(network.modules[worst.path]).__name__)


def run_and_path(call: Call) -> tuple[int, str]:
    """Which call of the network it belongs to, and its norm."""
    return call.run, call.place.path


@finding
def stale_average(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Averaging weights (EMA, SWA) does not average what the weights make of the data: the copy's running
    statistics belong to other weights until they are estimated anew. How much that costs is not yet judged here."""
    if not network.tracked:
        return
    if network.asked.averaged is None:
        raise NotChecked("pass averaged=, the averaged model (EMA, SWA) or its state dict")
    saved, theirs = matched(network.asked.averaged, network.root), network.modes.apart
    if not saved:
        raise ValueError("averaged=: has no parameter of the module; pass the averaged copy of this network")
    own = network.root.state_dict()
    with network.quiet(train=False) as step, torch.no_grad():
        copies = {name: value.to(own[name], copy=True) for name, value in saved.items()}
        # into attributes that `quiet` puts back
        network.root.load_state_dict(copies, strict=False, assign=True)
        found = modes(step, network.batches, network.tracked)
    losses = (
        f" The copy's loss is {found.running:.4g}, and {found.precise:.4g} with statistics estimated anew."
    )
    stale = {p: x for p, x in found.apart.items() if x > limit.beyond * theirs.get(p, 0.0)}
    for worst in above(stale, limit.apart):
        own_worst = max(theirs.values(), default=0.0)
        yield Found(*worst, own=own_worst, losses=losses if network.has_loss else "")
