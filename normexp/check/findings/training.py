"""What the training around the norms does to them: optimizer, saving, batches, converted weights."""

from collections.abc import Iterable
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import matched
from normexp.check.result import NotChecked
from normexp.check.run import Network
from normexp.check.trace import RUNNING

EPS = {"keras": 1e-3, "tensorflow": 1e-3, "jax": 1e-5, "flax": 1e-5}  # BatchNorm's default there


@finding
def last_batch_of_one(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A BatchNorm over one value has no variance. Torch stops with `Expected more than 1 value per channel when
    training`, at the end of the epoch."""
    calls = [c for c in network.trace.calls if c.place.follows_batches]
    alone = dict.fromkeys(c.place.path for c in calls if network.samples and c.values == network.samples)
    if not alone:
        return
    loader = network.loader
    if hasattr(loader, "train_dataloader"):
        loader = loader.train_dataloader()
    if not isinstance(loader, DataLoader):
        raise NotChecked("pass the DataLoader of the training")
    size = loader.batch_size
    if size is None or loader.drop_last or not hasattr(loader.dataset, "__len__"):
        return
    if len(loader.dataset) % size == 1:
        yield Found(1, alone, of=len(loader.dataset))


@finding
def decay_on_norms(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Weight decay pulls gains toward 0, which nothing in the loss asks for. Whether that costs accuracy has no
    verdict here yet; before a norm, scaling weights changes nothing but their step."""
    if network.asked.optimizer is None:
        raise NotChecked("pass optimizer=")
    own = {p: f"{place.path}.{name}" for place in network.places for name, p in parameters(place.module)}
    decayed = [
        (float(group["lr"]), float(group["weight_decay"]), own[p])
        for group in network.asked.optimizer.param_groups
        if group.get("weight_decay")
        for p in group["params"]
        if p in own
    ]
    if decayed:
        rate, decay, _ = max(decayed, key=lambda row: row[0] * row[1])
        shrinks = 1 - max(0.0, 1 - rate * decay) ** 1000
        case = "shrinks" if shrinks > limit.shrinks else ""
        yield Found(shrinks, [name for *_, name in decayed], case=case, rate=rate, decay=decay)


def parameters(module: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Parameter]]:
    """The parameters of a norm itself, by name."""
    return module.named_parameters(recurse=False)


@finding
def not_saved(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics are buffers, and gains are parameters of layers that an adapter does not list. What is not
    saved starts anew when the weights are loaded."""
    if network.asked.state_dict is None:
        raise NotChecked("pass state_dict=, what you save")
    saved, wanted = matched(network.asked.state_dict, network.root), list[str]()
    for place in network.places:
        wanted += [f"{place.path}.{name}" for name, p in parameters(place.module) if p.requires_grad]
        if place.tracked and place.follows_batches and (place.module.training or not network.root.training):
            wanted += [
                f"{place.path}.{name}" for name in RUNNING if getattr(place.module, name, None) is not None
            ]
    missing = [name for name in wanted if name not in saved]
    if missing:
        buffers = sum(name.rpartition(".")[2] in RUNNING for name in missing)
        yield Found(len(missing), missing, of=len(wanted), buffers=buffers, rest=len(missing) - buffers)


@finding
def voided_bias(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that subtracts the mean of each channel removes whatever bias the layer before it adds: the bias gets
    no gradient and changes nothing."""
    shares = network.trace.cancelled
    void = {path: shares[path] for path in network.trace.layers if shares.get(path, 1.0) < limit.rounding}
    if void:
        count = sum(
            p.numel() for path in void for name, p in parameters(network.modules[path]) if name == "bias"
        )
        yield Found(max(void.values()), void, parameters=count)


@finding
def dropout_before_batchnorm(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Dropout raises the variance in training and not in eval mode. A BatchNorm behind it stores the raised one (Li
    et al. 2018, Understanding the disharmony between dropout and batch normalization)."""
    drops = [
        m
        for m in network.modules.values()
        if "drop" in type(m).__name__.lower() and isinstance(getattr(m, "p", None), float) and m.p
    ]
    follow = [place.path for place in network.tracked if place.follows_batches]
    if not drops or not follow:
        return
    dropped = {c.place.path: c.var for c in reversed(network.trace.calls) if c.place.path in follow}
    kept = network.modes.var
    ratios = {
        path: float(torch.nanmedian(var / kept[path].clamp_min(1e-30)))
        for path, var in dropped.items()
        if path in kept and bool((kept[path] > 0).any())
    }
    for worst in above(
        {path: max(ratio, 1 / max(ratio, 1e-30)) for path, ratio in ratios.items()}, limit.factor
    ):
        yield Found(ratios[worst.path], worst.layers, worst.path)


@finding
def converted(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """momentum is the share that a new batch gets in torch, and the share that is kept in Keras, TensorFlow and
    Flax. Their eps differs as well."""
    momentum = {p.path: getattr(p.module, "momentum", None) for p in network.tracked}
    swapped = [path for path, value in momentum.items() if value and value > limit.momentum]
    still = [path for path, value in momentum.items() if value == 0]
    if swapped:
        first = float(momentum[swapped[0]])
        yield Found(1 - first, swapped, case="swapped", momentum=first)
    if still:
        yield Found(0, still, case="still")
    batch, library = [p for p in network.tracked if p.kind == "batch"], network.asked.converted_from
    if batch and library is None and not swapped and not still:
        raise NotChecked("pass converted_from= (keras, tensorflow, jax, flax) if the weights come from there")
    if library is None:
        return
    theirs = EPS[library]
    other = [p for p in batch if abs(p.eps / theirs - 1) > limit.same]
    changes = {p.path: eps_effect(p.module.running_var, p.eps, theirs) for p in other}
    for worst in above(changes):
        case = "eps" if worst.number > limit.change else "small_eps"
        yield Found(*worst, case, eps=other[0].eps, library=library, theirs=theirs)


def eps_effect(variance: torch.Tensor, ours: float, theirs: float) -> float:
    """The largest relative change of 1 / sqrt(var + eps) over the channels, from one eps to another."""
    ratio = ((variance.double() + theirs) / (variance.double() + ours)).sqrt()
    return float((ratio - 1).abs().amax())
