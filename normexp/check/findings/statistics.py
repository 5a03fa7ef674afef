"""Batch statistics and running statistics: BatchNorm and its relatives."""

import math
from collections.abc import Iterable
from itertools import islice
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor, nn

from normexp.check.estimates import Modes, Moments, estimate_anew, modes
from normexp.check.finding import Found, above, codes, finding
from normexp.check.findings.replacement import swap_code
from normexp.check.inputs import length_of, matched
from normexp.check.network import Network
from normexp.check.norm_sites import NormSite
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, Call, trace
from normexp.format import pluralize
from normexp.monitors.batches import PROBE
from normexp.monitors.guard import loss_of
from normexp.norms.layers import BATCH

DRAWS = 8  # of dropout, where one pass showed a difference
WORST = 8  # layers that a finding about the whole network names


@finding
def statistics_unused(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics start at mean 0 and variance 1. Until they have seen batches, eval mode divides by 1."""
    new = [norm for norm in network.tracked if norm.seen == 0]
    if not new:
        return
    if len(new) == len(network.tracked) and network.root.training and all(map(as_made, new)):
        raise NotChecked(
            "no norm has seen a batch or learned: check again after some training, or in eval mode"
        )
    yield Found(new, of=len(network.tracked))


def as_made(norm: NormSite) -> bool:
    """Whether gain and shift are as a norm that was just made has them: one number for all channels."""
    parts = (norm.layer.gain, norm.layer.shift)
    return all(part is None or bool((part == part.flatten()[0]).all()) for part in parts)


def require_seen(network: Network) -> None:
    """Raise NotChecked if no running statistic has seen a batch."""
    if all(norm.seen == 0 for norm in network.tracked):
        raise NotChecked("the running statistics have seen no batch; check again after some training")


@finding
def mode_gap(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """In training BatchNorm divides by the batch's deviation, in eval mode by a running one. Where the two differ,
    the network computes another function when it is evaluated."""
    if not network.tracked:
        return
    require_seen(network)
    if network.attempt.loss_by == PROBE:
        raise NotChecked("pass loss= (--loss package:function), or batches with targets")
    measured, losses_left = network.modes, network.mode_losses()
    # What a few batches show may be chance: where they have a gap, all that are left are asked, too.
    rows = list(islice(losses_left, 1 + len(network.other_batches) // 8))
    if not all(math.isfinite(batch) for *_, batch in rows):
        raise NotChecked(
            "pass another loss= or other batches: the loss is no number with batch statistics, too"
        )
    if not is_gap(rows, limit) or not is_gap(rows := [*rows, *losses_left], limit, chance=True):
        return
    batches, *losses = zip(*rows, strict=True)
    running, batch, precise = *map(fmean, losses), network.loss_anew(list(batches))
    gap = running - batch
    worst = sorted(measured.distances, key=measured.distances.__getitem__, reverse=True)[:WORST]
    by_path = {norm.path: norm for norm in network.tracked}
    fused = [path for path in worst if is_normalized_already(by_path[path], measured, limit)]
    apart = {p: d for p, calls in measured.moments.items() if (d := distance(calls)) > limit.calls}
    fields: dict[str, Any] = {"running": running, "batch": batch, "precise": precise, "batches": len(rows)}
    case = "open" if precise - batch >= limit.closed * gap else "closed"
    if fused:
        yield Found(fused, gap, "fused", **fields)
    elif apart and case == "open":
        worst = sorted(apart, key=apart.__getitem__, reverse=True)
        swap = swap_code(network, network.tracked)
        yield Found(worst, gap, "several", apart=apart[worst[0]], swap=swap, **fields)
    else:
        few = network.batch_size is not None and network.batch_size < limit.few
        stored = STORED.format(n=network.batch_size) if few and case == "open" else ""
        fields |= {"remedy": remedy(network), "swap": swap_code(network, network.tracked)}
        yield Found(worst, gap, case, stored=stored, **fields)


STORED = " torch normalizes with a variance over n and stores one over n - 1, which counts at {n} samples."


def is_gap(rows: list[tuple[Any, float, float]], limit: SimpleNamespace, *, chance: bool = False) -> bool:
    """Whether the mean gap of some batches is more than the limit's share of their loss, or is no number. With `chance`
    it is the lower end of its one-sided interval of 90% (Student's t), where three batches or more show a spread."""
    gaps, loss = [running - batch for _, running, batch in rows], fmean(batch for *_, batch in rows)
    if not all(map(math.isfinite, gaps)):
        return True
    n = len(gaps)
    error = stdev(gaps) / math.sqrt(n) * stdtrit(n - 1, 0.9) if chance and n > 2 else 0.0
    return fmean(gaps) - error > limit.gap * abs(loss) + limit.floor


def is_normalized_already(norm: NormSite, measured: Modes, limit: SimpleNamespace) -> bool:
    """Whether what arrives has the norm's own gain for deviation and its shift for mean, and not the running ones."""
    gain, shift = norm.layer.gain, norm.layer.shift
    if not measured.moments.get(norm.path) or gain is None or shift is None:
        return False
    now = measured.moments[norm.path][0]
    std = now.var.sqrt().clamp_min(TINY)
    error = (
        torch.stack([(now.mean - shift.detach()) / std, gain.detach().abs() / std - 1]).square().mean().sqrt()
    )
    return measured.distances[norm.path] > limit.apart and float(error) < limit.fused


def distance(calls: list[Moments]) -> float:
    """The largest distance of two calls' means, in deviations (root mean square over channels)."""
    first = calls[0]
    apart = ((c.mean - first.mean) / (c.var + first.var).div(2).sqrt().clamp_min(TINY) for c in calls[1:])
    return max((float(x.square().mean().sqrt()) for x in apart), default=0.0)


def remedy(network: Network) -> str:
    """Code that estimates the running statistics of a network's norms anew."""
    norms = [norm.module for norm in network.tracked]
    if any(isinstance(norm, BATCH) for norm in norms):
        return f"torch.optim.swa_utils.update_bn({even_loader(network)}, model)"
    if hasattr(norms[0], "ema_keep"):
        return "normexp.norms.BatchNorm.recompute_population_statistics(model, loader)"
    if all(hasattr(norm, "reset_running_stats") for norm in norms):
        layers = codes(network, [norm.path for norm in network.tracked])
        return (
            f"for m in {layers}: m.reset_running_stats(); m.momentum = None\n"
            "with torch.no_grad(): [model.train()(x) for x, *_ in loader]"
        )
    keep = max((norm.layer.keep or 0.0 for norm in network.tracked), default=0.0)
    # Batches that leave 1% of the old statistics.
    new = math.ceil(math.log(0.01) / math.log(keep)) if 0 < keep < 1 else 1
    return (
        f"import itertools; batches = itertools.islice(itertools.cycle(loader), {new})\n"
        "with torch.no_grad(): [model.train()(x) for x, *_ in batches]"
    )


def even_loader(network: Network) -> str:
    """The loader as code: `update_bn` gives each batch the same weight, so a small last one must be left out."""
    loader = network.training_loader
    size = getattr(loader, "batch_size", None)
    if size and not loader.drop_last and hasattr(loader.dataset, "__len__") and len(loader.dataset) % size:
        return f"DataLoader(dataset, {size}, drop_last=True)"
    return "loader"


@finding
def statistics_cold(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Each batch moves a running statistic by momentum of the way. With a small momentum and few batches, the
    start (mean 0, variance 1) is still in it when you validate."""
    keeps = {p: p.layer.keep for p in network.tracked if p.follows_batches and p.layer.keep is not None}
    if not keeps:
        return
    if (steps := network.options.steps or length_of(network.training_loader)) is None:
        raise NotChecked(
            "pass a DataLoader with a length, or steps= (--steps), the batches before the first validation"
        )
    left = (
        (norm, keep ** (steps + (norm.seen or 0)))
        for norm, keep in keeps.items()
        if not norm.seen or keep**norm.seen <= limit.left or start_in(norm, network) > keep**norm.seen / 2
    )
    momentum = {norm.path: 1 - keep for norm, keep in keeps.items()}
    enough = math.ceil(100 * (1 - limit.left ** (1 / steps))) / 100  # two digits
    for worst in above(
        left, limit.left, steps=pluralize(steps, "batch"), momentum=momentum.get, enough=enough
    ):
        worst.fields["set"] = momentum_code(
            network, [p for p in keeps if p.path in worst.layers], "statistics_cold"
        )
        yield worst


def momentum_code(network: Network, norms: Iterable[NormSite], id: str) -> str:
    """Code that sets the share of a new batch, up to its number, for the norms of a finding."""
    norms = list(dict.fromkeys(norms))
    shares = [(getattr(norm.module, "momentum", None), 1 - (norm.layer.keep or 0)) for norm in norms]
    layers = codes(network, [norm.path for norm in norms], id)
    if all(isinstance(m, float) and math.isclose(m, share, rel_tol=0.01) for m, share in shares):
        return f"for m in {layers}: m.momentum ="
    if all(hasattr(norm.module, "ema_keep") for norm in norms):
        return f"for m in {layers}: m.ema_keep = 1 -"
    return f"# in the forward of {norms[0].name}: the share of a new batch ="


def start_in(norm: NormSite, network: Network) -> float:
    """The share of mean 0 and variance 1 that is left in running statistics, beside what arrives. Statistics that were
    estimated anew have none, whatever they count."""
    if not (calls := network.modes.moments.get(norm.path)):
        return math.inf
    real = torch.cat(calls[0][:2])
    start = torch.cat([torch.zeros_like(calls[0].mean), torch.ones_like(calls[0].var)]) - real
    running = torch.cat(norm.running) - real
    return float((running * start).sum() / start.square().sum().clamp_min(TINY))


@finding
def small_batch(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """BatchNorm's statistics come from the samples of one forward pass on one device. Few samples make them noisy
    in training and wrong in eval mode. Accumulation adds up gradients, not statistics, and without SyncBatchNorm
    devices share none."""
    calls = [call for call in network.calls if call.norm.follows_batches and call.training]
    if not calls:
        return
    batch, step = network.known_batch_size, network.options.accumulate or 1
    least, devices = min(calls, key=network.values_per_statistic), network.options.devices or 1
    samples = network.samples_per_statistic(least) * (devices if least.norm.synced else 1)
    if samples < limit.enough:
        larger = "16 and more samples at a call" if network.gets_a_part(least) else "a batch of 16 and more"
        more = f", also in a step of {batch * step} samples over {step} batches" if step > 1 else ""
        case = "few" if samples < limit.few else ""
        case = "devices" if devices > 1 and not least.norm.synced else case
        fields = {"more": more, "devices": devices, "larger": larger, "samples": pluralize(samples, "sample")}
        fields["values"] = pluralize(network.values_per_statistic(least), "value")
        fields["swap"] = swap_code(network, (call.norm for call in calls), "small_batch")
        yield Found(calls, samples, case, least.norm.path, **fields)
    if step > 1 and (keep := least.norm.layer.keep) is not None and 1 - keep**step > limit.pace:
        same = 1 - keep ** (1 / step)
        fields = {"step": step, "momentum": 1 - keep, "same": same}
        fields["set"] = momentum_code(network, (call.norm for call in calls), "small_batch")
        yield Found(calls, 1 - keep**step, "accumulated", **fields)


@finding
def frozen_thaws(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """requires_grad=False freezes gain and shift, not the running statistics; eval() does, until the next
    train()."""
    follows = [norm for norm in network.tracked if norm.follows_batches]
    trainable = {norm: [p.requires_grad for p in norm.module.parameters(recurse=False)] for norm in follows}
    frozen = [norm for norm, trains in trainable.items() if trains and not any(trains)]
    calls = [call for call in network.calls if call.norm in frozen and call.training]
    taught = [call.norm for call in calls if not call.learns and has_student(network, call.norm)]
    calls = [call for call in calls if call.norm not in taught]
    yield from above(((call, moves(call)) for call in calls), case="moving", of=len(follows))
    if network.root.training:
        resting = [norm for norm in follows if not norm.module.training]
        with network.quiet(train=True):
            network.root.train()
            thaw = [norm for norm in resting if norm.module.training]
        if thaw:
            yield Found(thaw, case="thawing", of=len(network.tracked))
    if taught:
        raise NotChecked(
            f"{taught[0].path} is in a copy of a layer that trains: a teacher may follow its batch"
        )


def has_student(network: Network, norm: NormSite) -> bool:
    """Whether a frozen layer around a norm has a twin that trains, as the average of a student's weights has."""
    parts = norm.path.split(".")
    around = [network.modules[".".join(parts[:n])] for n in range(1, len(parts) + 1)]
    frozen = next(m for m in around if not any(p.requires_grad for p in m.parameters()))
    trains = (m for m in network.modules.values() if all(p.requires_grad for p in m.parameters()))
    shapes = [p.shape for p in frozen.parameters()]
    return any(type(m) is type(frozen) and [p.shape for p in m.parameters()] == shapes for m in trains)


def moves(call: Call) -> float:
    """How far one batch moves the running mean of a call's norm, in running deviations (root mean square)."""
    norm, (mean, var) = call.norm, call.norm.running
    step = 1 - norm.layer.keep if norm.layer.keep is not None else 1 / ((norm.seen or 0) + 1)
    apart = (call.mean - mean) / (var + norm.layer.eps).sqrt()
    return float(step * apart.square().mean().sqrt())


@finding
def buffers_apart(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without `broadcast_buffers` each process keeps the running statistics of the batches that it saw alone. They
    differ, and validation and checkpoints take those of one process, or another set on each."""
    alone = [norm for norm in network.tracked if norm.follows_batches and not norm.synced]
    if not alone:
        return
    if network.options.broadcasts is None and (network.options.devices or 1) > 1:
        raise NotChecked("pass the network as DistributedDataParallel wraps it, or use CheckNorms")
    if network.options.broadcasts is False:
        yield Found(alone)


@finding
def stale_average(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Averaging weights (EMA, SWA) does not average what the weights make of the data: the copy's running
    statistics belong to other weights until they are estimated anew. How much that costs is not yet judged here."""
    if not network.tracked:
        return
    saved = matched(network.options.need("averaged"), network.root, "averaged=")
    require_seen(network)
    own = network.modes.distances  # of the network itself, not of its averaged copy
    state = network.root.state_dict()
    with network.quiet(train=False) as step, torch.no_grad():
        copies = {name: value.to(state[name], copy=True) for name, value in saved.items()}
        # into attributes that `quiet` puts back
        network.root.load_state_dict(copies, strict=False, assign=True)
        measured = modes(step, network.batches, network.tracked)
        estimate_anew(step, network.other_batches, network.tracked)
        precise = float(loss_of(step, network.batches.held_out))
    losses = f" The copy's loss is {measured.running:.4g}, and {precise:.4g} with statistics estimated anew."
    stale = ((p, x) for p, x in measured.distances.items() if x > limit.beyond * own.get(p, 0.0))
    losses = "" if network.attempt.loss_by == PROBE else losses
    yield from above(stale, limit.apart, own=max(own.values(), default=0.0), losses=losses)


@finding
def dropout_before_batchnorm(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Dropout raises the variance in training and not in eval mode. A BatchNorm behind it stores the raised one (Li
    et al. 2018, Understanding the disharmony between dropout and batch normalization)."""
    follows = [norm for norm in network.tracked if norm.follows_batches]
    if not follows or not network.trace.random:
        return  # nothing is drawn
    off = {path: calls[0].var for path, calls in network.modes.moments.items()}
    on = {call.norm.path: call.var for call in reversed(network.calls) if call.norm in follows}
    if max(ratios(on, off).values(), default=0.0) <= limit.factor:
        return
    with network.quiet(train=True) as step, torch.no_grad():
        draws = [first_variances(step, network, follows, seed) for seed in range(DRAWS)]
        for module in step.modules():  # dropout off, norms as they were
            module.training = module.training and module in {norm.module for norm in follows}
        off = first_variances(step, network, follows, 0)
    on = {p: torch.stack([d[p] for d in draws if p in d]).mean(0) for p in off if p in draws[0]}
    for worst in above(ratios(on, off).items(), limit.factor):
        raised = (norm for norm in follows if norm.path in worst.layers)
        worst.fields["swap"] = swap_code(network, raised, "dropout_before_batchnorm")
        worst.case = "" if worst.fields["swap"] else "by_hand"
        yield worst


def first_variances(step: nn.Module, network: Network, norms: list[NormSite], seed: int) -> dict[str, Tensor]:
    """path -> variance of each channel at the first call of a norm in a pass."""
    torch.manual_seed(seed)
    calls = trace(step, network.batches.training, norms).calls
    return {call.norm.path: call.var for call in reversed(calls)}


def ratios(on: dict[str, Tensor], off: dict[str, Tensor]) -> dict[str, float]:
    """path -> ratio of two variances, median over channels."""
    both = {p: (on[p], off[p]) for p in on.keys() & off.keys() if on[p].shape == off[p].shape}
    return {p: float((x[y > 0] / y[y > 0]).median()) for p, (x, y) in both.items() if bool((y > 0).any())}
