"""What the training around the norms does to them: optimizer, saving, batches, converted weights."""

from collections.abc import Iterable
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

from normexp.check.calls import RUNNING, TINY, Call
from normexp.check.finding import Found, above, finding
from normexp.check.inputs import PRECISIONS, matched
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import trace

EPS = {"keras": 1e-3, "tensorflow": 1e-3, "jax": 1e-5, "flax": 1e-5}  # BatchNorm's default there
DRAWS = 8  # of dropout, where the first one made a difference
STEPS = 1000  # over which decay_on_norms adds up; its sentence names them


@finding
def last_batch_of_one(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A BatchNorm over one value has no variance. Torch stops with `Expected more than 1 value per channel when
    training`, at the end of the epoch."""
    calls = [call for call in network.calls if call.place.follows_batches]
    alone = [call for call in calls if network.samples and call.values == network.samples]
    if not alone:
        return
    loader = network.training_loader
    if not isinstance(loader, DataLoader) or (size := loader.batch_size) is None:
        raise NotChecked("pass the DataLoader of the training, with batch_size=")
    if loader.drop_last or not hasattr(loader.dataset, "__len__"):
        return
    if len(loader.dataset) % size == 1:
        yield Found(alone, 1, of=len(loader.dataset))


@finding
def decay_on_norms(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Weight decay pulls gains toward 0, which nothing in the loss asks for. Whether that costs accuracy has no
    verdict here yet; before a norm, scaling weights changes nothing but their step."""
    optimizer = network.options.need("optimizer")
    names = network.parameters()
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
        yield Found([name for *_, name in decayed], shrinks, case, rate=rate, decay=decay)


@finding
def not_optimized(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """What no group of the optimizer has keeps its start. That happens to norms that were put in after the optimizer
    was made, and where groups are chosen by name or by shape."""
    optimizer = network.options.need("optimizer")
    held = {p for group in optimizer.param_groups for p in group["params"]}
    if absent := [n for p, n in network.parameters().items() if p.requires_grad and p not in held]:
        yield Found(absent)


@finding
def gains_stuck(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A number of 8 or 11 bits moves by no step below half of its spacing. Adam's steps are about as large as the rate,
    so that a gain near 1 keeps its value for good, and decay on it is lost, too."""
    optimizer, kind = network.options.need("optimizer"), network.precision
    if not any(word in type(optimizer).__name__.lower() for word in ("adam", "lion", "adafactor", "nadam")):
        return
    half = (torch.float16, torch.bfloat16)
    dtype = PRECISIONS[kind] if kind and "mixed" not in kind else torch.float32
    names, ratios, held = network.parameters(), {}, {}
    for group in optimizer.param_groups:
        for p in (p for p in group["params"] if p in names and p.requires_grad and p.numel()):
            held[names[p]] = p.dtype if p.dtype in half else dtype
            if held[names[p]] in half:
                spacings = half_spacing(p.detach().float().abs(), held[names[p]])
                ratios[names[p]] = float((float(group["lr"]) / spacings).median())
    if stuck := {name: ratio for name, ratio in ratios.items() if ratio < limit.step}:
        worst = min(stuck, key=stuck.__getitem__)
        rate = max(float(group["lr"]) for group in optimizer.param_groups)
        words = {"rate": rate, "kind": str(held[worst]).removeprefix("torch.")}
        yield Found(stuck, stuck[worst], path=worst, **words)


def half_spacing(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the distance from positive numbers to the next smaller ones of a type."""
    mantissa, exponent = torch.frexp(x)
    below = torch.where(mantissa == 0.5, 0.5, 1.0)  # numbers just below a power of 2 lie twice as close
    half = torch.finfo(dtype).eps * torch.exp2(exponent.float() - 1) * below / 2
    return torch.where(mantissa == 0, TINY, half)


@finding
def not_saved(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics are buffers, and gains are parameters of layers that an adapter does not list. What is not
    saved starts anew when the weights are loaded."""
    saved = matched(network.options.need("state_dict"), network.root)
    needed = [name for p, name in network.parameters().items() if p.requires_grad]
    for place in network.tracked:
        if place.follows_batches and (place.module.training or not network.root.training):
            held = [name for name in RUNNING if getattr(place.module, name, None) is not None]
            needed += [f"{place.path}.{name}" for name in held]
    if missing := [name for name in needed if name not in saved]:
        buffers = sum(name.rpartition(".")[2] in RUNNING for name in missing)
        yield Found(missing, of=len(needed), buffers=buffers, rest=len(missing) - buffers)


@finding
def voided_bias(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that subtracts the mean of each channel removes whatever bias the layer before it adds: the bias gets
    no gradient and changes nothing."""
    shares = network.trace.cancelled
    void = {path: shares[path] for path in network.trace.gradients if shares.get(path, 1.0) < limit.rounding}
    if void:
        own = [p for path in void for p in network.modules[path].named_parameters(recurse=False)]
        biases = sum(p.numel() for name, p in own if name == "bias")
        yield Found(void, max(void.values()), parameters=biases)


@finding
def dropout_before_batchnorm(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Dropout raises the variance in training and not in eval mode. A BatchNorm behind it stores the raised one (Li
    et al. 2018, Understanding the disharmony between dropout and batch normalization)."""
    drops = [m for m in network.modules.values() if "drop" in type(m).__name__.lower()]
    follow = {place.path for place in network.tracked if place.follows_batches}
    drop = network.trace.drops or any(isinstance(p := getattr(m, "p", None), float) and p for m in drops)
    if not follow or not drop:
        return
    without = {path: var for path, var in network.modes.var.items() if bool((var > 0).any())}

    def variances(calls: Iterable[Call]) -> dict[str, torch.Tensor]:
        first = {call.place.path: call.var for call in reversed(list(calls))}
        return {path: var for path, var in first.items() if path in follow & without.keys()}

    def ratios(sums: dict[str, torch.Tensor], draws: int) -> dict[str, float]:
        means = {path: var / draws / without[path].clamp_min(TINY) for path, var in sums.items()}
        return {path: float(torch.nanmedian(ratio)) for path, ratio in means.items()}

    def beyond(ratio: float) -> float:
        return max(ratio, 1 / max(ratio, TINY))

    sums = variances(network.calls)
    found = ratios(sums, 1)
    if any(beyond(ratio) > limit.factor for ratio in found.values()):
        with network.quiet(train=True) as step, torch.no_grad():
            for seed in range(1, DRAWS):  # one draw of dropout may be large by chance
                torch.manual_seed(seed)
                drawn = variances(trace(step, network.batches.training, network.tracked).calls)
                sums = {path: var + drawn.get(path, 0.0) for path, var in sums.items()}
        found = ratios(sums, DRAWS)
    for worst in above(((path, beyond(ratio)) for path, ratio in found.items()), limit.factor):
        worst.number = found[worst.path]
        yield worst


@finding
def converted(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """momentum is the share that a new batch gets in torch, and the share that is kept in Keras, TensorFlow and
    Flax. Their eps differs as well."""
    momentum = {p.path: getattr(p.module, "momentum", None) for p in network.tracked}
    swapped = [path for path, value in momentum.items() if value and value > limit.momentum]
    still = [path for path, value in momentum.items() if value == 0]
    if swapped:
        first = float(momentum[swapped[0]])
        yield Found(swapped, 1 - first, "swapped" if first <= 1 else "beyond", momentum=first)
    if still:
        yield Found(still, 0, "still")
    batch, library = [p for p in network.tracked if p.kind == "batch"], network.options.converted_from
    if library is not None:
        theirs = EPS[library]
        other = [p for p in batch if abs(p.eps / theirs - 1) > limit.same]
        changes = ((p, eps_effect(p.module.running_var, p.eps, theirs)) for p in other)
        for worst in above(changes, eps=lambda _: other[0].eps, library=library, theirs=theirs):
            worst.case = "eps" if worst.number > limit.change else "small_eps"
            yield worst
    elif batch and not swapped and not still:
        network.options.need("converted_from")


def eps_effect(variance: torch.Tensor, ours: float, theirs: float) -> float:
    """The largest relative change of 1 / sqrt(var + eps) over the channels, from one eps to another."""
    ratio = ((variance.double() + theirs) / (variance.double() + ours)).sqrt()
    return float((ratio - 1).abs().amax())
