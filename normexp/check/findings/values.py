"""The values that arrive at a norm: too small for eps, too large for the precision, constant. Gradients by depth."""

import copy
import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection

from normexp.check.called import Owner
from normexp.check.finding import Found, above, finding
from normexp.check.inputs import PRECISIONS, tensor_of
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, size
from normexp.monitors.gradients import growth_rate

SAMPLE = 2**20  # values on which a norm is run in another precision
MOST_TEXT = 200  # characters of an error's text
SMALLER = 1000  # times below the variance, an eps takes 0.05% of the output


@finding
def pass_fails(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """The training pass stopped with an error."""
    error, where = network.attempt.error, network.attempt.inside
    if error is not None:
        text = " ".join(str(error).split())[:MOST_TEXT]
        case = "one_value" if "Expected more than 1 value per channel" in text else ""
        inside, layers = (f" in {where}", (where,)) if where else ("", ())
        yield Found(1.0, layers, case, inside=inside, name=type(error).__name__, text=text)


@finding
def not_finite(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A statistic that is infinite or not a number spreads to everything behind it."""
    running = {p.path: (p.module.running_mean, p.module.running_var) for p in network.tracked}
    stored = [path for path, both in running.items() if not all(bool(x.isfinite().all()) for x in both)]
    negative = [path for path, (_, var) in running.items() if bool((var < 0).any())]
    arriving = [c.place.path for c in network.attempt.calls if not math.isfinite(c.largest)]
    of = len(network.places)
    if negative and not stored:
        yield Found(len(negative), negative, "negative", of=of)
    elif paths := dict.fromkeys([*stored, *arriving]):
        yield Found(len(paths), paths, "stored" if stored else "arriving", of=of)


@finding
def one_value(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A statistic over one value is that value: the norm outputs its shift whatever arrives. Over two it outputs
    two signs."""
    centered = [c for c in network.trace.calls if c.place.centers]
    if few := {c.place.path: n for c in centered if (n := network.values(c)) <= limit.few}:
        path = min(few, key=few.__getitem__)
        yield Found(few[path], few, "one" if few[path] < 2 else "two", path)


@finding
def eps(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm divides by sqrt(variance + eps). Where eps is not small against what arrives, the output keeps part of
    the input's scale."""
    shares, medians, places = [], {}, {c.place.path: c.place for c in network.trace.calls}
    for call in network.trace.calls:
        alive, path, added = call.spread[call.spread > 0], call.place.path, call.place.eps
        if len(alive) and added > 0 and call.values > limit.few:
            shares.append((path, float((added / (alive + added)).median())))
            medians[path] = float(alive.median())
    for worst in above(shares, limit.share):
        place, variance, scale = places[worst.path], medians[worst.path], (1 - worst.number) ** 0.5
        if place.tracked and place.seen == 0:
            worst.case = "untrained"  # the scale at initialization says little
        worst.words = {"eps": place.eps, "variance": variance, "size": scale, "smaller": variance / SMALLER}
        yield worst


@finding
def overflow(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """float16 ends at 65,504 and squares overflow from 256 on. torch's own norms accumulate in float32, many
    written by hand do not. bfloat16 has the range and three digits."""
    precision = network.precision or network.options.need("precision")
    kind = getattr(torch, PRECISIONS[precision])
    finite = [c for c in network.trace.calls if math.isfinite(c.largest)]
    if kind not in (torch.float16, torch.bfloat16) or not finite:
        return
    lost = []
    with network.quiet(train=True), torch.no_grad():
        for call in finite:
            x = call.x[: max(1, SAMPLE // max(1, call.x[0].numel()))]
            # as padding gives: an eps that rounds to 0 divides 0 by 0
            norm = Owner(call.place.module, (torch.cat([x, torch.zeros_like(x[:1])]),), {})
            owner = getattr(call.place.module, "owner", norm)  # of one that is called as a function
            lost.append((call.place.path, lost_in(owner, kind, "mixed" in precision, limit.vanished)))
    names = {c.place.path: type(c.place.module).__name__ for c in finite}
    names |= {
        path: name.removesuffix("()") for path, name in zip(names, names, strict=True) if path.endswith("()")
    }
    yield from above(lost, case="lost", precision=precision, name=names.get)
    most, end = max(finite, key=lambda call: call.largest), torch.finfo(kind).max
    margin, path = end / max(most.largest, TINY), most.place.path
    if margin < limit.margin:
        yield Found(margin, [path], "margin", largest=most.largest, precision=precision, end=end)


def lost_in(owner: Owner, kind: torch.dtype, mixed: bool, vanished: float) -> float:
    """Share of a layer's outputs that are not finite, or all zero, in a precision and not in float32."""
    if getattr(owner.module, "running_mean", None) is not None:
        return 0.0  # BatchNorm in training mode, without moving anything: it is torch's own kernel
    layer = copy.deepcopy(owner.module).eval()

    def given(dtype: torch.dtype) -> Any:
        def cast(x: torch.Tensor) -> torch.Tensor:
            return x.detach().to(dtype) if x.is_floating_point() else x

        return apply_to_collection((owner.args, owner.kwargs), torch.Tensor, cast)

    try:
        args, kwargs = given(torch.float32)
        right = tensor_of(layer.float().forward(*args, **kwargs))
        args, kwargs = given(kind)
        with torch.autocast(right.device.type, dtype=kind, enabled=mixed):
            there = tensor_of((layer if mixed else layer.to(kind)).forward(*args, **kwargs))
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return 0.0  # the kernel does not exist here
    lost = ~there.isfinite() & right.isfinite()
    gone = (there == 0) & (right.abs() > vanished)
    return float((lost | gone).float().mean())


@finding
def constant_channels(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A constant channel has variance 0: its output is the shift, and eps alone decides the gradient, which it
    multiplies by 1 / sqrt(eps)."""
    calls = [c for c in network.trace.calls if c.values > limit.few and c.place.centers]
    flat = ((c.place.path, c.var.sqrt() <= limit.constant * c.mean.abs()) for c in calls)
    yield from above(((path, float(x.float().mean())) for path, x in flat), limit.share)


@finding
def dead_units(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A unit that is flat for every sample passes no gradient. Right behind a norm, shift and gain decide that."""
    for place, case in enumerate(("dead", "saturated")):
        shares = ((norm, parts[place]) for norm, *parts in network.trace.units.values())
        yield from above(shares, limit.share, case)


@finding
def gradient_band(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """If the gradient grows or falls by a factor in each layer, the first layers take steps of another size than
    the last ones. In networks without skip connections BatchNorm itself makes it grow, by 1.2 a layer."""
    linear = [x for x in network.trace.layers.values() if x.kind == "linear" and x.gradient is not None]
    sizes = {x.path: x.gradient * size(network.modules[x.path].weight.detach()) for x in linear}
    fit = [x for x in sizes.values() if x > 0 and math.isfinite(x)]
    if len(fit) < limit.least:
        raise NotChecked("fewer than four weights get a gradient; pass a network that trains")
    rate = float(growth_rate(torch.tensor(fit, dtype=torch.float64))) ** 0.5
    across = rate ** (len(fit) - 1)
    if not 1 / limit.band <= across <= limit.band:
        first, *_, last = sizes
        word, sign = ("grows", 1) if across > 1 else ("shrinks", -1)
        words = {"rate": rate**sign, "across": across**sign, "weights": len(fit)}
        yield Found(across, (first, last), word=word, **words)
