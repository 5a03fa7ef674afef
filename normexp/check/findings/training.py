"""What the training around the norms does to them: optimizer, saving, batches, converted weights."""

from collections.abc import Iterable

import torch
from torch.utils.data import DataLoader

from normexp.check.finding import Found, finding
from normexp.check.findings.statistics import matched, state_of
from normexp.check.network import Network
from normexp.check.places import RUNNING
from normexp.check.result import NotChecked

SHRINKS = 0.05  # of a gain in a thousand steps of decay alone
EPS = {"keras": 1e-3, "tensorflow": 1e-3, "jax": 1e-5, "flax": 1e-5}  # BatchNorm's default there
KEPT = 0.99  # `momentum` there: the share that is kept
SHIFT = 1.2  # ratio of variances with dropout on and off


@finding("last_batch_of_one", "S68", "P10")
def last_batch_of_one(network: Network) -> Iterable[Found]:
    """A BatchNorm over one value has no variance. Torch stops with `Expected more than 1 value per channel when
    training`, at the end of the epoch."""
    alone = [
        c
        for c in network.trace.calls
        if c.place.follows_batches and network.samples and c.values == network.samples
    ]
    if not alone:
        return
    loader = network.loader
    if hasattr(loader, "train_dataloader"):
        loader = loader.train_dataloader()
    if not isinstance(loader, DataLoader):
        raise NotChecked("pass the DataLoader of the training")
    size, drops = loader.batch_size, loader.drop_last
    if size is None or drops or not hasattr(loader.dataset, "__len__"):
        return
    if len(loader.dataset) % size == 1:
        yield Found(
            "error",
            f"The last batch of an epoch has 1 of {len(loader.dataset):,} samples, and {alone[0].place.path} would "
            "normalize over one value.",
            1, "samples in the last batch", "DataLoader(..., drop_last=True)",
            tuple(dict.fromkeys(call.place.path for call in alone)),
        )  # fmt: skip


@finding("decay_on_norms", "P02", "S56")
def decay_on_norms(network: Network) -> Iterable[Found]:
    """Weight decay pulls gains toward 0, which nothing in the loss asks for. Whether that costs accuracy has no
    verdict here yet; before a norm, scaling weights changes nothing but their step."""
    optimizer = network.asked.optimizer
    if optimizer is None:
        raise NotChecked("pass optimizer=")
    own = {
        p: f"{place.path}.{name}"
        for place in network.places
        for name, p in place.module.named_parameters(recurse=False)
    }
    groups = [
        (g, [own[p] for p in g["params"] if p in own])
        for g in optimizer.param_groups
        if g.get("weight_decay")
    ]
    names = [name for _, found in groups for name in found]
    if names:
        rate, decay = max(
            ((g["lr"], g["weight_decay"]) for g, found in groups if found), key=lambda pair: pair[0] * pair[1]
        )
        shrinks = 1 - max(0.0, 1 - float(rate) * float(decay)) ** 1000
        yield Found(
            "warning" if shrinks > SHRINKS else "note",
            f"{len(names)} gains and shifts of norms have weight decay {decay:g}: at the rate {float(rate):g} decay "
            f"alone takes {shrinks:.2g} of each in 1,000 steps.",
            shrinks, "share of a gain that decay removes in 1,000 steps",
            "optimizer = Opt([{'params': [p for p in model.parameters() if p.dim() > 1]},\n"
            "                 {'params': [p for p in model.parameters() if p.dim() < 2], 'weight_decay': 0.0}])",
            tuple(names),
        )  # fmt: skip


@finding("not_saved", "S59", "S10")
def not_saved(network: Network) -> Iterable[Found]:
    """Running statistics are buffers, and gains are parameters of layers that an adapter does not list. What is not
    saved starts anew when the weights are loaded."""
    if network.asked.state_dict is None:
        raise NotChecked("pass state_dict=, what you save")
    saved = matched(state_of(network.asked.state_dict), network.root)
    wanted: list[str] = []
    for place in network.places:
        wanted += [
            f"{place.path}.{n}" for n, p in place.module.named_parameters(recurse=False) if p.requires_grad
        ]
        if place.tracked and place.follows_batches and (place.module.training or not network.root.training):
            wanted += [f"{place.path}.{n}" for n in RUNNING if getattr(place.module, n, None) is not None]
    missing = [name for name in wanted if name not in saved]
    if missing:
        buffers = sum(name.rpartition(".")[2] in RUNNING for name in missing)
        yield Found(
            "warning",
            f"{len(missing)} of {len(wanted)} tensors of norms that training changes are not in the state dict: "
            f"{buffers} running statistics, {len(missing) - buffers} gains and shifts.",
            len(missing), "tensors of norms that are not saved",
            "torch.save(model.state_dict(), path)  # or list the norms in `modules_to_save` of the adapter",
            tuple(missing),
        )  # fmt: skip


@finding("voided_bias", "S36b", "P03a")
def voided_bias(network: Network) -> Iterable[Found]:
    """A norm that subtracts the mean of each channel removes whatever bias the layer before it adds: the bias gets
    no gradient and changes nothing."""
    void = {path: share for path, share in network.trace.cancelled.items() if share < 1e-3}
    if void:
        count = sum(
            p.numel()
            for path in void
            for name, p in network.modules[path].named_parameters()
            if name == "bias"
        )
        yield Found(
            "note",
            f"{len(void)} layers have a bias that the norm behind them subtracts ({count:,} parameters): their "
            f"gradients cancel to {max(void.values()):.1g} of their size.",
            max(void.values()), "|sum of gradients| / sum of |gradients|, 0 but for rounding",
            f"{network.call(next(iter(void)))}: build it with bias=False", tuple(void),
        )  # fmt: skip


@finding("dropout_before_batchnorm", "S31a")
def dropout_before_batchnorm(network: Network) -> Iterable[Found]:
    """Dropout raises the variance in training and not in eval mode. A BatchNorm behind it stores the raised one (Li
    et al. 2018, Understanding the disharmony between dropout and batch normalization)."""
    drops = [
        m
        for m in network.modules.values()
        if getattr(m, "p", 0.0) and isinstance(m.p, float) and "drop" in type(m).__name__.lower()
    ]
    tracked = [place for place in network.tracked if place.follows_batches]
    if not drops or not tracked:
        return
    dropped = {c.place.path: c.var for c in reversed(network.trace.calls) if c.place in tracked}
    with network.quiet(train=True) as step:
        for module in drops:
            module.eval()
        from normexp.check.trace import trace

        kept = {
            call.place.path: call.var
            for call in reversed(trace(step, network.batches.training, tracked).calls)
        }
    ratios = {
        path: float(torch.nanmedian(dropped[path] / var.clamp_min(1e-30)))
        for path, var in kept.items()
        if path in dropped and bool((var > 0).any())
    }
    shifted = {path: ratio for path, ratio in ratios.items() if not 1 / SHIFT < ratio < SHIFT}
    if shifted:
        path = max(shifted, key=lambda name: abs(torch.tensor(shifted[name]).log().item()))
        yield Found(
            "warning",
            f"Dropout changes the variance that {path} stores by a factor of {shifted[path]:.2f} (median channel).",
            shifted[path], "variance with dropout over variance without",
            "put dropout behind the last norm, or use a norm without running statistics", tuple(shifted),
        )  # fmt: skip


@finding("converted", "S27", "S27a", "S28", "S29", "S45a")
def converted(network: Network) -> Iterable[Found]:
    """`momentum` is the share that a new batch gets in torch, and the share that is kept in Keras, TensorFlow and
    Flax. Their eps differs as well."""
    swapped = [
        p
        for p in network.tracked
        if (getattr(p.module, "momentum", None) or 0) > 0.5 and hasattr(p.module, "num_batches_tracked")
    ]
    if swapped:
        momentum = float(swapped[0].module.momentum)
        yield Found(
            "warning",
            f"momentum={momentum:g} in torch keeps {1 - momentum:.2g} of the running statistics at each batch: they "
            "are those of the last batch. Elsewhere the same word means the share that is kept.",
            1 - momentum, "share of the running statistics that a batch keeps",
            f"for m in model.modules():\n    if hasattr(m, 'momentum'): m.momentum = {1 - momentum:.3g}",
            tuple(p.path for p in swapped),
        )  # fmt: skip
    still = [p for p in network.tracked if p.follows_batches and getattr(p.module, "momentum", None) == 0]
    if still:
        yield Found(
            "warning",
            f"{len(still)} norms have momentum=0: in torch their running statistics never move.",
            0, "share that a new batch gets",
            "for m in model.modules():\n    if hasattr(m, 'momentum'): m.momentum = 0.1  # torch's default",
            tuple(p.path for p in still),
        )  # fmt: skip
    library = network.asked.converted_from
    batch = [p for p in network.tracked if p.kind == "batch"]
    if not batch:
        return
    if library is None:
        if not swapped and not still:
            raise NotChecked(
                "pass converted_from= (keras, tensorflow, jax, flax) if the weights come from there"
            )
        return
    other = [p for p in batch if abs(p.eps / EPS[library] - 1) > 1e-3]
    if other:
        off = {p.path: eps_effect(p.module.running_var, p.eps, EPS[library]) for p in other}
        worst = max(off.values())
        yield Found(
            "warning" if worst > 0.01 else "note",
            f"{len(other)} BatchNorm layers have eps={other[0].eps:g}; the default of {library} is {EPS[library]:g}. "
            f"With these running variances that changes the output by up to {worst:.2g} of its size.",
            worst, "relative change of a channel's output",
            f"for m in model.modules():\n    if isinstance(m, nn.BatchNorm2d): m.eps = {EPS[library]:g}",
            tuple(off),
        )  # fmt: skip


def eps_effect(variance: torch.Tensor, ours: float, theirs: float) -> float:
    """The largest relative change of 1 / sqrt(var + eps) over the channels, from one eps to another."""
    ratio = ((variance.double() + theirs) / (variance.double() + ours)).sqrt()
    return float((ratio - 1).abs().amax())
