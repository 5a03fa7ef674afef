"""Batch statistics and running statistics: BatchNorm and its relatives."""

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.utils.data import DataLoader

from normexp.check.finding import Found, finding
from normexp.check.network import Network
from normexp.check.places import Place
from normexp.check.result import NotChecked

GAP = 0.1  # of the loss in batch mode; below, two batches of one network differ as much
COLD = 0.05  # share of the start (mean 0, variance 1) that is left in a running statistic
SMALL, ENOUGH = (
    8,
    16,
)  # samples per statistic: P10 and P13 ask of 2; a choice between that and 16, where P10b begins
APART = 0.25  # of a standard deviation, between statistics that should agree


def fresh(place: Place) -> bool:
    """Whether the running statistics have seen no batch."""
    count = getattr(place.module, "num_batches_tracked", None)
    return count is not None and int(count) == 0


@finding("statistics_unused", "S28a", "S10")
def statistics_unused(network: Network) -> Iterable[Found]:
    """Running statistics start at mean 0 and variance 1. Until they have seen batches, eval mode divides by 1."""
    new = [place for place in network.tracked if fresh(place)]
    if new:
        yield Found(
            "note",
            f"{len(new)} of {len(network.tracked)} norms with running statistics have seen no batch: eval mode uses "
            "mean 0 and variance 1.",
            len(new), "norms without a batch", "train, or load weights with their buffers, before you evaluate",
            tuple(place.path for place in new),
        )  # fmt: skip


@finding("mode_gap", "P13", "S31", "S31a", "P20")
def mode_gap(network: Network) -> Iterable[Found]:
    """In training BatchNorm divides by the batch's deviation, in eval mode by a running one. Where the two differ,
    the network computes another function when it is evaluated."""
    used = [place for place in network.tracked if not fresh(place) and place.follows_batches]
    if not network.tracked:
        return
    if not used:
        raise NotChecked("the running statistics have seen no batch; check again after some training")
    _ = network.trace.loss  # the first pass says whether there is a loss
    if not network.has_loss:
        raise NotChecked("pass loss=, or batches with targets")
    found = network.modes
    gap = found.running - found.batch
    if not math.isfinite(found.running) or gap > GAP * abs(found.batch) + 0.01:
        mended = found.precise - found.batch < gap / 2 or not math.isfinite(found.running)
        worst = sorted(found.apart, key=lambda path: -sum(found.apart[path].values()))
        fix = (
            "torch.optim.swa_utils.update_bn(loader, model)  # estimate them anew"
            if mended
            else 'normexp.norms.swap(model, "groupnorm")  # or larger batches: estimating anew does not close it'
        )
        yield Found(
            "warning",
            f"The loss is {found.batch:.4g} with batch statistics and {found.running:.4g} with running statistics; "
            f"with statistics estimated anew from two batches it is {found.precise:.4g}.",
            gap, "loss in eval mode minus loss in training mode, same batch, dropout off", fix, tuple(worst[:8]),
        )  # fmt: skip


def updates_before_validation(network: Network) -> int:
    """Batches that the running statistics see before the first validation."""
    if network.asked.steps is not None:
        return network.asked.steps
    if isinstance(network.loader, DataLoader):
        return len(network.loader)
    if hasattr(network.loader, "train_dataloader"):
        return len(network.loader.train_dataloader())
    raise NotChecked("pass a DataLoader, or steps=, the batches before the first validation")


@finding("statistics_cold", "S30", "S30a", "S27a", "S28a")
def statistics_cold(network: Network) -> Iterable[Found]:
    """Each batch moves a running statistic by `momentum` of the way. With a small momentum and few batches, the
    start (mean 0, variance 1) is still in it when you validate."""
    used = [place for place in network.tracked if place.follows_batches and share_kept(place) is not None]
    if not used:
        return
    steps = updates_before_validation(network)
    left = {}
    for place in used:
        count = int(getattr(place.module, "num_batches_tracked", None) or 0)
        left[place] = share_kept(place) ** (steps + count)  # type: ignore[operator]
    cold = [place for place, share in left.items() if share > COLD]
    if cold:
        worst = max(left.values())
        momentum = 1 - share_kept(cold[0])  # type: ignore[operator]
        enough = 1 - COLD ** (1 / steps)
        yield Found(
            "warning",
            f"After {steps} batches {worst:.0%} of the running statistics is still their start (momentum "
            f"{momentum:.3g}).",
            worst, "share of the start that is left at the first validation",
            f"for m in model.modules():\n    if hasattr(m, 'momentum'): m.momentum = {math.ceil(enough * 100) / 100:g}"
            "  # or None, for the plain average of all batches",
            tuple(place.path for place in cold),
        )  # fmt: skip


def share_kept(place: Place) -> float | None:
    """The share of a running statistic that one batch leaves; None if it is a plain average, or unknown."""
    if (keep := getattr(place.module, "ema_keep", None)) is not None:
        return float(keep)
    momentum = getattr(place.module, "momentum", None)
    return None if momentum is None else 1 - float(momentum)


@finding("small_batch", "P10", "P10a", "P13", "S68", "S38")
def small_batch(network: Network) -> Iterable[Found]:
    """BatchNorm's statistics come from the samples of one forward pass on one device. Few samples make them noisy
    in training and wrong in eval mode. Accumulation adds up gradients, not statistics."""
    calls = [
        call for call in network.trace.calls if call.place.follows_batches and call.place.module.training
    ]
    if not calls or network.trace.error is not None:
        return
    batch, step = network.batch_size, network.asked.accumulate or 1
    least = min(calls, key=network.values)
    samples = getattr(least.place.module, "virtual_batch_size", None) or batch
    if is_synced(least.place):
        samples *= network.asked.devices or 1
    if samples < ENOUGH:
        more = f", also in a step of {batch * step} samples over {step} batches" if step > 1 else ""
        yield Found(
            "warning" if samples < SMALL else "note",
            f"BatchNorm normalizes over {samples} samples at a time ({network.values(least):,} values per statistic at "
            f"the least, in {least.place.path}){more}.",
            samples, "samples per statistic",
            'normexp.norms.swap(model, "groupnorm")  # or a batch of 16 and more',
            tuple(dict.fromkeys(call.place.path for call in calls)),
        )  # fmt: skip
    if step > 1 and (keep := share_kept(least.place)) is not None and keep < 1:
        yield Found(
            "note",
            f"With {step} batches a step, running statistics move {step} times a step: momentum {1 - keep:.3g} acts "
            f"as {1 - keep**step:.3g}.",
            1 - keep**step, "effective momentum per step of the optimizer",
            f"bn.momentum = {1 - keep ** (1 / step):.3g}  # for the same pace per step",
        )  # fmt: skip


def is_synced(place: Place) -> bool:
    """Whether statistics run over all processes."""
    return "Sync" in place.name


@finding("sync_needed", "P13", "P10", "S38")
def sync_needed(network: Network) -> Iterable[Found]:
    """Without SyncBatchNorm each device normalizes with its own part of the batch, and only the buffers of the
    first one are saved."""
    lone = [place for place in network.places if place.follows_batches and not is_synced(place)]
    if not lone:
        return
    if network.asked.devices is None:
        raise NotChecked("pass devices=, the processes that train together")
    if network.asked.devices > 1 and network.batch_size < ENOUGH:
        yield Found(
            "warning",
            f"Each of {network.asked.devices} devices takes statistics of its own {network.batch_size} samples; "
            f"together they have {network.asked.devices * network.batch_size}.",
            network.batch_size, "samples per device", "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)",
            tuple(place.path for place in lone),
        )  # fmt: skip


@finding("frozen_thaws", "S28a", "S10")
def frozen_thaws(network: Network) -> Iterable[Found]:
    """requires_grad=False freezes gain and shift, not the running statistics; eval() does, until the next
    train()."""
    affine = [
        p for p in network.tracked if getattr(p.module, "weight", None) is not None and p.follows_batches
    ]
    frozen = [p for p in affine if not p.module.weight.requires_grad]
    moving = {
        call.place.path: moves(call) for call in network.trace.calls if call.place in frozen and call.training
    }
    moving = {path: size for path, size in moving.items() if size > 0}
    if moving:
        worst = max(moving.values())
        yield Found(
            "warning",
            f"{len(moving)} BatchNorm layers have a frozen gain and still follow the batch: one batch moves their "
            f"running means by up to {worst:.2g} deviations.",
            worst, "move of a running mean in one batch, in running deviations",
            "for m in model.modules():\n    if isinstance(m, nn.modules.batchnorm._BatchNorm): m.eval()"
            "  # after each model.train()",
            tuple(moving),
        )  # fmt: skip
    if network.root.training:
        resting = [p for p in network.tracked if p.follows_batches and not p.module.training]
        thaw = [p for p in resting if thaws(network, p)]
        if thaw:
            yield Found(
                "warning",
                f"{len(thaw)} of {len(network.tracked)} norms are in eval mode; the next model.train() sets them to "
                "training mode, and their running statistics move.",
                len(thaw), "norms that model.train() thaws",
                "def train(self, mode=True):\n    super().train(mode)\n    "
                + f"{network.call(thaw[0].path).replace('model', 'self', 1)}.eval()  # and the others\n    return self",
                tuple(p.path for p in thaw),
            )  # fmt: skip


def moves(call) -> float:
    """How far one batch moves the running mean of a call's norm, in running deviations (root mean square)."""
    module, keep = call.place.module, share_kept(call.place)
    step = 1 - keep if keep is not None else 1 / (int(module.num_batches_tracked or 0) + 1)
    if call.mean.shape != module.running_mean.shape:
        return 0.0
    deviation = (module.running_var + call.place.eps).sqrt()
    return float((step * (call.mean - module.running_mean) / deviation).square().mean().sqrt())


def thaws(network: Network, place: Place) -> bool:
    """Whether `train()` of the whole network sets a norm to training mode."""
    with network.quiet(train=True):
        network.root.train()
        return place.module.training


@finding("shared_statistics", "S10", "S31a")
def shared_statistics(network: Network) -> Iterable[Found]:
    """One BatchNorm at two places keeps one running mean and variance for two distributions; eval mode uses their
    mixture at both."""
    by_run: dict[tuple[int, str], list] = {}
    for call in network.trace.calls:
        if call.place.tracked and call.place.follows_batches:
            by_run.setdefault((call.run, call.place.path), []).append(call)
    apart = {}
    for (_, path), calls in by_run.items():
        if len(calls) > 1 and len({call.mean.shape for call in calls}) == 1:
            means = torch.stack([call.mean for call in calls])
            variances = torch.stack([call.var for call in calls])
            scale = (variances.mean(0) + calls[0].place.eps).sqrt()
            between = ((means.amax(0) - means.amin(0)) / scale).square().mean().sqrt()
            ratio = (
                ((variances.amax(0) + 1e-30) / (variances.amin(0) + 1e-30))
                .sqrt()
                .log()
                .square()
                .mean()
                .sqrt()
            )
            apart[path] = max(float(between), float(ratio))
    shared = {path: size for path, size in apart.items() if size > APART}
    if shared:
        worst = max(shared.values())
        path = max(shared, key=shared.__getitem__)
        uses = max(len(calls) for (_, own), calls in by_run.items() if own == path)
        yield Found(
            "warning",
            f"{path} is called {uses} times in one pass with one set of running statistics; what arrives differs by "
            f"{worst:.2g} (means in deviations, or logarithms of deviations).",
            worst, "difference between the statistics of its places", f"a {type(network.modules[path]).__name__} of "
            "its own for each place; weights of the convolutions may stay shared", tuple(shared),
        )  # fmt: skip


@finding("stale_average", "S10", "S31a")
def stale_average(network: Network) -> Iterable[Found]:
    """Averaging weights (EMA, SWA) does not average what the weights make of the data: the copy's running
    statistics belong to other weights until they are estimated anew. How much that costs is not yet judged here."""
    if not network.tracked:
        return
    if network.asked.averaged is None:
        raise NotChecked("pass averaged=, the averaged model (EMA, SWA) or its state dict")
    values = state_of(network.asked.averaged)
    own = matched(values, network.root)
    if not own:
        raise ValueError("averaged=: has no parameter of the module; pass the averaged copy of this network")
    with network.quiet(train=False) as step, torch.no_grad():
        from normexp.check.network import modes
        from normexp.monitors.guard import weights

        tensors = dict(network.root.named_parameters())
        with weights(
            {tensors[name]: value.to(tensors[name]) for name, value in own.items() if name in tensors}
        ):
            for name, buffer in network.root.named_buffers():
                if name in own:
                    buffer.copy_(own[name])
            found = modes(step, network.batches, network.tracked)
    apart = {path: max(tid.values()) for path, tid in found.apart.items()}
    theirs = {path: max(tid.values()) for path, tid in network.modes.apart.items()}
    stale = [path for path, size in apart.items() if size > max(APART, 1.5 * theirs.get(path, 0.0))]
    if stale:
        worst = max(apart[path] for path in stale)
        losses = (
            f" The copy's loss is {found.running:.4g}, and {found.precise:.4g} with statistics estimated anew."
            if network.has_loss
            else ""
        )
        yield Found(
            "warning",
            f"The averaged copy's running statistics differ from what its weights give by up to {worst:.2g} "
            f"deviations; the network's own by {max(theirs.values(), default=0.0):.2g}.{losses}",
            worst, "distance of stored from measured statistics, in deviations",
            "torch.optim.swa_utils.update_bn(loader, averaged_model)", tuple(stale),
        )  # fmt: skip


def state_of(saved) -> dict[str, torch.Tensor]:
    """The tensors of a module or of a state dict, which may lie under `state_dict` or `model`."""
    if isinstance(saved, nn.Module):
        return dict(saved.state_dict())
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(saved.get(key), dict):
            saved = saved[key]
            break
    return {name: value for name, value in saved.items() if isinstance(value, torch.Tensor)}


def matched(values: dict[str, torch.Tensor], root: nn.Module) -> dict[str, torch.Tensor]:
    """The network's own name -> the saved tensor, whatever wrappers put in front: `module.`, `_orig_mod.`, ..."""
    own = root.state_dict()
    names = {name: name for name in values}
    for name in values:
        short = name
        while short not in own and "." in short:
            short = short.partition(".")[2]
        names[name] = short
    return {
        names[name]: value
        for name, value in values.items()
        if names[name] in own and own[names[name]].shape == value.shape
    }
