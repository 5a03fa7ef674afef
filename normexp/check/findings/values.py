"""The values that arrive at a norm: too small for eps, too large for the precision, constant. Gradients by depth."""

import copy
import math
from collections.abc import Iterable

import torch
from torch import nn

from normexp.check.finding import Found, finding
from normexp.check.findings.statistics import fresh
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.monitors.gradients import growth_rate

LARGE_EPS = 0.5  # share of eps in variance + eps, of the median statistic: the output is then 0.7 of its size
MARGIN = 4.0  # times that activations may still grow before they overflow
CONSTANT = 1e-6  # deviation over |mean|; float32 has 1e-7
DEAD, MANY = 0.5, 0.05  # shares of units, of channels
BAND = 1e4  # of |dL/dW| |W| from one end of the network to the other


@finding("pass_fails", "S68")
def pass_fails(network: Network) -> Iterable[Found]:
    """The training pass stopped with an error."""
    error = network.trace.error
    if error is not None:
        text = " ".join(str(error).split())[:200]
        where = network.trace.inside
        one = "Expected more than 1 value per channel" in text
        fix = (
            "a batch of at least 2, DataLoader(..., drop_last=True), or nn.GroupNorm / nn.LayerNorm"
            if one
            else "make `model.train(); loss(model(x), y).backward()` run first"
        )
        yield Found(
            "error", f"The training pass fails{f' in {where}' if where else ''}: {type(error).__name__}: {text}",
            1.0, "failed passes", fix, (where,) if where else (),
        )  # fmt: skip


@finding("not_finite", "S49")
def not_finite(network: Network) -> Iterable[Found]:
    """A statistic that is infinite or not a number spreads to everything behind it."""
    stored = [
        p.path for p in network.tracked
        if not (p.module.running_mean.isfinite().all() and p.module.running_var.isfinite().all())
        or bool((p.module.running_var < 0).any())
    ]  # fmt: skip
    arriving = [c.place.path for c in network.trace.calls if not math.isfinite(c.largest)]
    paths = tuple(dict.fromkeys([*stored, *arriving]))
    if paths:
        what = "have running statistics that are not finite" if stored else "get values that are not finite"
        yield Found(
            "error", f"{len(paths)} of {len(network.places)} norms {what}; the first is {paths[0]}.",
            len(paths), "norms",
            f"{network.call(paths[0])}.reset_running_stats()  # after mending what came in"
            if stored else "lower the learning rate, or start the run again from an earlier checkpoint",
            paths,
        )  # fmt: skip


@finding("one_value", "S51a", "S58a")
def one_value(network: Network) -> Iterable[Found]:
    """A statistic over one value is that value: the norm outputs its shift whatever arrives. Over two it outputs
    two signs."""
    few = {
        c.place.path: network.values(c)
        for c in network.trace.calls
        if c.place.centers and network.values(c) < 3
    }
    if network.trace.error is not None:
        few.pop(network.trace.inside, None)  # it has said so itself
    if few:
        least = min(few.values())
        path = min(few, key=few.__getitem__)
        yield Found(
            "error" if least < 2 else "warning",
            f"{path} normalizes over {least} value{'s' * (least > 1)}: its output is "
            f"{'its shift' if least < 2 else 'two signs'} whatever arrives.",
            least, "values per statistic",
            f"fewer groups, or a larger input: {network.call(path)} needs more values per statistic", tuple(few),
        )  # fmt: skip


@finding("eps", "S18a", "S45a", "S62a", "S49")
def eps(network: Network) -> Iterable[Found]:
    """A norm divides by sqrt(variance + eps). Where eps is not small against what arrives, the output keeps part of
    the input's scale."""
    shares: dict[str, tuple[float, float]] = {}
    for call in network.trace.calls:
        alive = call.spread[call.spread > 0]
        if len(alive) and call.place.eps > 0 and call.values > 2:
            share = float((call.place.eps / (alive + call.place.eps)).median())
            shares[call.place.path] = (
                max(share, shares.get(call.place.path, (0.0, 0.0))[0]),
                float(alive.median()),
            )
    large = {path: pair for path, pair in shares.items() if pair[0] > LARGE_EPS}
    if large:
        path = max(large, key=lambda name: large[name][0])
        share, variance = large[path]
        place = next(p for p in network.places if p.path == path)
        value = place.eps
        yield Found(
            "note" if place.tracked and fresh(place) else "warning",  # the scale at initialization says little
            f"eps={value:g} is {share:.0%} of variance + eps in {path} (median variance {variance:.2g}): its output "
            f"has {math.sqrt(1 - share):.2g} of the size that it should have.",
            share, "eps / (variance + eps), median statistic",
            f"{network.call(path)}.eps = {variance / 1000:.0e}  # or a larger scale before it", tuple(large),
        )  # fmt: skip


@finding("overflow", "X01")
def overflow(network: Network) -> Iterable[Found]:
    """float16 ends at 65,504 and squares overflow from 256 on. torch's own norms accumulate in float32, many
    written by hand do not. bfloat16 has the range and three digits."""
    from normexp.check.run import PRECISIONS

    if network.asked.precision is None:
        raise NotChecked("pass precision=, such as 16-mixed or bf16-mixed")
    kind = getattr(torch, PRECISIONS[network.asked.precision])
    if kind not in (torch.float16, torch.bfloat16):
        return
    limit = torch.finfo(kind).max
    mixed = "mixed" in network.asked.precision
    broken: dict[str, float] = {}
    with network.quiet(train=True), torch.no_grad():
        for call in network.trace.calls:
            x = call.x[: max(1, 2**20 // max(1, call.x[0].numel()))]
            x = torch.cat(
                [x, torch.zeros_like(x[:1])]
            )  # as padding gives: an eps that rounds to 0 divides 0 by 0
            if math.isfinite(call.largest) and (lost := lost_in(call.place.module, x, kind, mixed)) > 0:
                broken[call.place.path] = max(lost, broken.get(call.place.path, 0.0))
    largest = max(
        network.trace.calls, key=lambda c: c.largest if math.isfinite(c.largest) else 0.0, default=None
    )
    if broken:
        path = max(broken, key=broken.__getitem__)
        yield Found(
            "error",
            f"{path} computed in {network.asked.precision} gives {broken[path]:.0%} of its outputs not finite, or "
            f"zero, where float32 does not ({len(broken)} norms).",
            broken[path], "share of outputs that overflow or vanish",
            f"in the forward of {type(network.modules[path]).__name__}: compute in x.float(), then .to(x.dtype)",
            tuple(broken),
        )  # fmt: skip
    if largest is not None and limit / max(largest.largest, 1e-30) < MARGIN:
        yield Found(
            "warning",
            f"Values up to {largest.largest:.3g} arrive at {largest.place.path}; {network.asked.precision} ends at "
            f"{limit:.3g}, {limit / largest.largest:.2g} times that.",
            limit / largest.largest, "largest number of the precision / largest value that arrives",
            "precision='bf16-mixed'  # or a norm, or a smaller scale, before it", (largest.place.path,),
        )  # fmt: skip


def lost_in(module: nn.Module, x: torch.Tensor, kind: torch.dtype, mixed: bool) -> float:
    """Share of a norm's outputs that are not finite, or all zero, in a precision and not in float32."""
    layer = copy.deepcopy(module).eval() if getattr(module, "running_mean", None) is None else None
    if layer is None:  # BatchNorm in training mode, without moving anything: it is torch's own kernel
        return 0.0
    try:
        right = layer.forward(x.float())
        if mixed:
            with (
                torch.autocast("cpu", dtype=kind)
                if x.device.type == "cpu"
                else torch.autocast(x.device.type, dtype=kind)
            ):
                there = layer.forward(x.to(kind))
        else:
            there = layer.to(kind).forward(x.to(kind))
    except (RuntimeError, TypeError, NotImplementedError):
        return 0.0  # the kernel does not exist here
    lost = ~there.isfinite() & right.isfinite()
    gone = (there == 0) & (right.abs() > 1e-3)
    return float((lost | gone).float().mean())


@finding("constant_channels", "S49", "S52", "S52a")
def constant_channels(network: Network) -> Iterable[Found]:
    """A constant channel has variance 0: its output is the shift, and eps alone decides the gradient, which it
    multiplies by 1 / sqrt(eps)."""
    shares: dict[str, float] = {}
    for call in network.trace.calls:
        if call.values > 2 and call.place.centers:
            flat = call.var.sqrt() <= CONSTANT * call.mean.abs()
            shares[call.place.path] = max(float(flat.float().mean()), shares.get(call.place.path, 0.0))
    found = {path: share for path, share in shares.items() if share > MANY}
    if found:
        path = max(found, key=found.__getitem__)
        yield Found(
            "warning",
            f"{found[path]:.0%} of the statistics of {path} are of constant values: its output there is the shift "
            "alone.",
            found[path], "share of statistics with variance 0",
            "look at the layer before it: a dead activation, a channel of zeros, or padding in the batch", tuple(found),
        )  # fmt: skip


@finding("dead_units", "S14a", "S20", "S16")
def dead_units(network: Network) -> Iterable[Found]:
    """A unit that is flat for every sample passes no gradient. Right behind a norm, shift and gain decide that."""
    dead = {unit.behind: unit.dead for unit in network.trace.units if unit.dead > DEAD}
    if dead:
        path = max(dead, key=dead.__getitem__)
        yield Found(
            "warning", f"{dead[path]:.0%} of the units right behind {path} are flat for every sample of the batch.",
            dead[path], "share of units with derivative below 0.05 everywhere",
            f"nn.init.zeros_({network.call(path)}.bias)  # and look at its weight", tuple(dead),
        )  # fmt: skip
    full = {
        u.behind: u.saturated for u in network.trace.units if u.saturated is not None and u.saturated > DEAD
    }
    if full:
        path = max(full, key=full.__getitem__)  # type: ignore[arg-type]
        yield Found(
            "warning", f"{full[path]:.0%} of the outputs right behind {path} are saturated.",
            full[path], "share of outputs within 5% of a bound",
            f"nn.init.ones_({network.call(path)}.weight)  # a smaller gain", tuple(full),
        )  # fmt: skip


@finding("gradient_band", "P17", "P17d", "S57", "S21")
def gradient_band(network: Network) -> Iterable[Found]:
    """If the gradient grows or falls by a factor in each layer, the first layers take steps of another size than
    the last ones. In networks without skip connections BatchNorm itself makes it grow, by 1.2 a layer."""
    found = [size for size in network.trace.sensitivity.values() if size > 0 and math.isfinite(size)]
    if len(found) < 4:
        raise NotChecked("fewer than four weights get a gradient; pass a network that trains")
    rate = float(growth_rate(torch.tensor(found, dtype=torch.float64))) ** 0.5
    across = rate ** (len(found) - 1)
    if across > BAND or across < 1 / BAND:
        word = "grows" if across > 1 else "shrinks"
        paths = list(network.trace.sensitivity)
        yield Found(
            "warning",
            f"|dL/dW| |W| {word} by a factor of {max(rate, 1 / rate):.3g} a layer toward the input, "
            f"{max(across, 1 / across):.1e} over {len(found)} layers.",
            across, "fitted ratio of |dL/dW| |W|, first layer to last",
            "add skip connections, or normalize the weights' scale (He for ReLU, Xavier for tanh)",
            (paths[0], paths[-1]),
        )  # fmt: skip
