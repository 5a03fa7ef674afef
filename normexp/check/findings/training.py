"""What the training around the norms does to them: optimizer, saving, batches, converted weights."""

from collections.abc import Iterable
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import matched
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import RUNNING, TINY

EPS = {"keras": 1e-3, "tensorflow": 1e-3, "jax": 1e-5, "flax": 1e-5}  # BatchNorm's default there
STEPS = 1000  # over which decay_on_norms adds up; its sentence names them


@finding
def last_batch_of_one(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A BatchNorm over one value has no variance. Torch stops with `Expected more than 1 value per channel when
    training`, at the end of the epoch."""
    calls = [c for c in network.trace.calls if c.place.follows_batches]
    alone = dict.fromkeys(c.place.path for c in calls if network.samples and c.values == network.samples)
    if not alone:
        return
    loader = network.training_loader
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
    optimizer = network.options.need("optimizer")
    names = {p: f"{place.path}.{name}" for place in network.places for name, p in parameters(place.module)}
    decayed = [
        (float(group["lr"]), float(group["weight_decay"]), names[p])
        for group in optimizer.param_groups
        if group.get("weight_decay")
        for p in group["params"]
        if p in names
    ]
    if decayed:
        rate, decay, _ = max(decayed, key=lambda row: row[0] * row[1])
        shrinks = 1 - max(0.0, 1 - rate * decay) ** STEPS
        case = "shrinks" if shrinks > limit.shrinks else ""
        yield Found(shrinks, [name for *_, name in decayed], case, rate=rate, decay=decay)


def parameters(module: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Parameter]]:
    """The parameters of a norm itself, by name."""
    return module.named_parameters(recurse=False)


@finding
def not_saved(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics are buffers, and gains are parameters of layers that an adapter does not list. What is not
    saved starts anew when the weights are loaded."""
    saved, needed = matched(network.options.need("state_dict"), network.root), list[str]()
    for place in network.places:
        tensors = [name for name, p in parameters(place.module) if p.requires_grad]
        if place.tracked and place.follows_batches and (place.module.training or not network.root.training):
            tensors += [name for name in RUNNING if getattr(place.module, name, None) is not None]
        needed += [f"{place.path}.{name}" for name in tensors]
    if missing := [name for name in needed if name not in saved]:
        buffers = sum(name.rpartition(".")[2] in RUNNING for name in missing)
        yield Found(len(missing), missing, of=len(needed), buffers=buffers, rest=len(missing) - buffers)


@finding
def voided_bias(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that subtracts the mean of each channel removes whatever bias the layer before it adds: the bias gets
    no gradient and changes nothing."""
    shares = network.trace.cancelled
    void = {path: shares[path] for path in network.trace.layers if shares.get(path, 1.0) < limit.rounding}
    if void:
        biases = [p for path in void for name, p in parameters(network.modules[path]) if name == "bias"]
        yield Found(max(void.values()), void, parameters=sum(bias.numel() for bias in biases))


@finding
def dropout_before_batchnorm(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Dropout raises the variance in training and not in eval mode. A BatchNorm behind it stores the raised one (Li
    et al. 2018, Understanding the disharmony between dropout and batch normalization)."""
    drops = [m for m in network.modules.values() if "drop" in type(m).__name__.lower()]
    follow = [place.path for place in network.tracked if place.follows_batches]
    if not follow or not any(isinstance(p := getattr(m, "p", None), float) and p for m in drops):
        return
    dropped = {c.place.path: c.var for c in reversed(network.trace.calls) if c.place.path in follow}
    variances = {path: var for path, var in network.modes.var.items() if bool((var > 0).any())}
    ratios = {
        path: float(torch.nanmedian(var / variances[path].clamp_min(TINY)))
        for path, var in dropped.items()
        if path in variances
    }
    for worst in above(((path, max(x, 1 / max(x, TINY))) for path, x in ratios.items()), limit.factor):
        yield Found(ratios[worst.path], worst.layers, path=worst.path)


@finding
def converted(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """momentum is the share that a new batch gets in torch, and the share that is kept in Keras, TensorFlow and
    Flax. Their eps differs as well."""
    momentum = {p.path: getattr(p.module, "momentum", None) for p in network.tracked}
    beyond = [path for path, value in momentum.items() if value is not None and not 0 <= value <= 1]
    swapped = [p for p, value in momentum.items() if value and limit.momentum < value and p not in beyond]
    still = [path for path, value in momentum.items() if value == 0]
    if swapped:
        first = float(momentum[swapped[0]])
        yield Found(1 - first, swapped, "swapped", momentum=first)
    if still:
        yield Found(0, still, "still")
    if beyond:
        yield Found(float(momentum[beyond[0]]), beyond, "beyond", momentum=float(momentum[beyond[0]]))
    batch, library = [p for p in network.tracked if p.kind == "batch"], network.options.converted_from
    if library is not None:
        theirs = EPS[library]
        other = [p for p in batch if abs(p.eps / theirs - 1) > limit.same]
        changes = ((p.path, eps_effect(p.module.running_var, p.eps, theirs)) for p in other)
        for worst in above(changes, eps=lambda _: other[0].eps, library=library, theirs=theirs):
            worst.case = "eps" if worst.number > limit.change else "small_eps"
            yield worst
    elif batch and not swapped and not still and not beyond:
        network.options.need("converted_from")


def eps_effect(variance: torch.Tensor, ours: float, theirs: float) -> float:
    """The largest relative change of 1 / sqrt(var + eps) over the channels, from one eps to another."""
    ratio = ((variance.double() + theirs) / (variance.double() + ours)).sqrt()
    return float((ratio - 1).abs().amax())
