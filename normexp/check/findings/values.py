"""The values that arrive at a norm: too small for eps, too large for the precision, constant."""

import copy
import math
from collections.abc import Iterable
from types import SimpleNamespace

import torch

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import PRECISIONS, tensor_of
from normexp.check.network import Network
from normexp.check.trace import TINY, Call

SAMPLE = 2**20  # values on which a norm is run in another precision
MOST_TEXT = 200  # characters of an error's text
SMALLER = 1000  # the fix names an eps this many times below the variance, which takes 0.05% of the output


@finding
def pass_fails(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """The training pass stopped with an error."""
    error, where = network.attempt.error, network.attempt.inside
    if error is not None:
        text = " ".join(str(error).split())[:MOST_TEXT]
        case = "one_value" if "Expected more than 1 value per channel" in text else ""
        inside, layers = (f" in {where}", (where,)) if where else ("", ())
        yield Found(layers, 1.0, case, inside=inside, name=type(error).__name__, text=text)


@finding
def not_finite(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A statistic that is infinite or not a number spreads to everything behind it."""
    running = {p.path: (p.module.running_mean, p.module.running_var) for p in network.tracked}
    stored = [path for path, both in running.items() if not all(bool(x.isfinite().all()) for x in both)]
    negative = [path for path, (_, var) in running.items() if bool((var < 0).any())]
    arriving = [call for call in network.attempt.calls if not math.isfinite(call.largest)]
    if negative and not stored:
        yield Found(negative, case="negative")
    elif stored or arriving:
        yield Found([*stored, *arriving], case="stored" if stored else "arriving")


@finding
def one_value(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A statistic over one value is that value: the norm outputs its shift whatever arrives. Over two it outputs
    two signs."""
    centered = [c for c in network.calls if c.place.centers]
    if few := {c.place.path: n for c in centered if (n := network.values(c)) <= limit.few}:
        path = min(few, key=few.__getitem__)
        yield Found(few, few[path], "one" if few[path] < 2 else "two", path)


@finding
def eps(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm divides by sqrt(variance + eps). Where eps is not small against what arrives, the output keeps part of
    the input's scale."""
    shares, medians, places = [], {}, {call.place.path: call.place for call in network.calls}
    for call in network.calls:
        alive, added = call.spread[call.spread > 0], call.place.eps
        if len(alive) and added > 0 and call.values > limit.few:
            shares.append((call, float((added / (alive + added)).median())))
            medians[call.place.path] = float(alive.median())
    for worst in above(shares, limit.share):
        place, variance, scale = places[worst.path], medians[worst.path], (1 - worst.number) ** 0.5
        if place.tracked and place.seen == 0:
            worst.case = "untrained"  # the scale at initialization says little
        worst.words = {"eps": place.eps, "variance": variance, "size": scale, "smaller": variance / SMALLER}
        yield worst


@finding
def constant_channels(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A constant channel has variance 0: its output is the shift, and eps alone decides the gradient, which it
    multiplies by 1 / sqrt(eps)."""
    calls = [c for c in network.calls if c.values > limit.few and c.place.centers]
    flat = ((c, c.var.sqrt() <= limit.constant * c.mean.abs()) for c in calls)
    yield from above(((call, float(x.float().mean())) for call, x in flat), limit.share)


@finding
def overflow(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """float16 ends at 65,504 and squares overflow from 256 on. torch's own norms accumulate in float32, many
    written by hand do not. bfloat16 has the range and three digits."""
    precision = network.options.need("precision")
    kind, finite = PRECISIONS[precision], [call for call in network.calls if math.isfinite(call.largest)]
    if kind not in (torch.float16, torch.bfloat16) or not finite:
        return
    lost, names = [], {}
    with network.quiet(train=True), torch.no_grad():
        for call in finite:
            lost.append((call, lost_in(call, kind, "mixed" in precision, limit.vanished)))
            names[call.place.path] = type(call.place.module).__name__
    yield from above(lost, case="lost", precision=precision, name=names.get)
    most, end = max(finite, key=lambda call: call.largest), torch.finfo(kind).max
    margin = end / max(most.largest, TINY)
    if margin < limit.margin:
        yield Found([most], margin, "margin", largest=most.largest, precision=precision, end=end)


def lost_in(call: Call, kind: torch.dtype, mixed: bool, vanished: float) -> float:
    """Share of a norm's outputs that are not finite, or all zero, in a precision and not in float32."""
    if call.place.tracked:
        return 0.0  # BatchNorm is torch's own kernel
    layer, x = copy.deepcopy(call.place.module).eval(), call.x[: max(1, SAMPLE // max(1, call.x[0].numel()))]
    x = torch.cat([x, torch.zeros_like(x[:1])])  # as padding gives: an eps that rounds to 0 divides 0 by 0
    try:
        right = tensor_of(layer.float().forward(x.float()))
        with torch.autocast(x.device.type, dtype=kind, enabled=mixed):
            there = tensor_of((layer if mixed else layer.to(kind)).forward(x.to(kind)))
    except (RuntimeError, TypeError, ValueError):
        return 0.0  # the kernel does not exist here, or it takes more than x
    lost = ~there.isfinite() & right.isfinite()
    gone = (there == 0) & (right.abs() > vanished)
    return float((lost | gone).float().mean())
