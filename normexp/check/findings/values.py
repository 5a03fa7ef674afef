"""The values that arrive at a norm: too small for eps, too large for the precision, constant."""

import copy
import inspect
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from normexp.check.finding import Found, above, codes, finding, path_of
from normexp.check.findings.masks import mask_of, real_statistics
from normexp.check.findings.replacement import swap_code
from normexp.check.inputs import HALF, PRECISIONS, described
from normexp.check.network import Network
from normexp.check.norm_sites import NormSite
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, Call
from normexp.monitors.batches import Step, tensor_of
from normexp.norms.layers.recognize import EPS

SAMPLE = 2**20  # values on which a norm is run in another precision
MOST_TEXT = 200  # characters of an error's text
LEAST = 0.01  # share of outputs that is written as a number
SMALLER = 1000  # the fix names an eps this many times below the variance, which takes 0.05% of the output


@finding
def pass_fails(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """The training pass stopped with an error."""
    error, where = network.attempt.error, network.attempt.inside
    if network.attempt.skipped:
        raise NotChecked("the training step gives no loss for this batch; pass another one")
    if error is not None:
        text = " ".join(str(error).split())[:MOST_TEXT]
        case = "plain" if isinstance(network.step, Step) and not where else ""
        case = "mapping" if case and isinstance(network.batches.training, Mapping) else case
        case = "one_value" if "Expected more than 1 value per channel" in text else case
        inside, layers = (f" in {where}", (where,)) if where else ("", ())
        if case in ("plain", "mapping"):
            inside = f" on a batch that is {described(network.batches.training)}"
        fields = {"inside": inside, "name": type(error).__name__, "text": text}
        yield Found(
            layers, 1.0, case, takes=", ".join(inspect.signature(network.root.forward).parameters), **fields
        )


def roots(norm: NormSite) -> bool:
    """Whether a norm takes the root of the variance alone, whose derivative at 0 is infinite."""
    return norm.layer.eps == 0 or norm.layer.eps_position == "outside"


@finding
def not_finite(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A statistic that is infinite or not a number spreads to everything behind it."""
    running = {p.path: p.running for p in network.tracked}
    stored = [path for path, both in running.items() if not all(bool(x.isfinite().all()) for x in both)]
    negative = [path for path, (_, var) in running.items() if bool((var < 0).any())]
    arriving = [call for call in network.arriving if not math.isfinite(call.largest)]
    bad = [
        name
        for name, size in network.attempt.gradients.items()
        if size is not None and not math.isfinite(size)
    ]
    if bad and not stored and not arriving and math.isfinite(network.attempt.loss):
        root = [
            c for c in network.attempt.calls if c.understood and roots(c.norm) and bool((c.spread == 0).any())
        ]
        fields = {"parameter": bad[0], "tensors": len(bad)}
        case = "root" if root and all(call.norm.swappable for call in root) else "gradient"
        yield Found(root, len(bad), case, **fields)
    made = [call for call in network.arriving if math.isfinite(call.largest) and not call.finite]
    if negative and not stored:
        yield Found(negative, case="negative")
    elif stored or (arriving and not made):
        numbers = all(
            bool(x.isfinite().all()) for x in tree_leaves(network.batches.training) if isinstance(x, Tensor)
        )
        case = "arriving" if numbers else "batch"
        yield Found([*stored, *arriving], case="stored" if stored else case)
    elif made:
        by_eps = [call for call in made if call.understood and not 0 < call.norm.layer.eps < math.inf]
        fields = {"eps": made[0].norm.layer.eps, "set": eps_code(network, made, "not_finite")}
        yield Found(made, case="made_by_eps" if by_eps == made else "made", **fields)
    elif wrong := [name for name, p in network.root.named_parameters() if not bool(p.isfinite().all())]:
        yield Found(wrong, case="parameters")
    elif not math.isfinite(network.trace.loss):
        raise NotChecked("the loss is no number, and what arrives at norms is: pass another loss=")


ONE_VALUE = {
    "batch": "a batch of 3 and more, DataLoader(..., drop_last=True)",
    "parts": "3 and more samples of the batch at a call, or nn.GroupNorm / nn.LayerNorm",
    "instance": "{swap}  # over (C, H, W)",
    "group": "{swap}  # or a larger input",
    "sample": "for path in {paths}: model.set_submodule(path, nn.Identity())",
    "": "take it out, or give it more values by fewer groups or a larger input",
}


@finding
def one_value(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A statistic over one value is that value: the norm outputs its shift whatever arrives. Over two it outputs
    two signs."""
    centered = [c for c in network.understood if c.norm.centers]
    if few := {c.norm.path: n for c in centered if (n := network.values_per_statistic(c)) <= limit.few}:
        calls = [call for call in centered if call.norm.path in few]
        path, norms = min(few, key=few.__getitem__), list(dict.fromkeys(call.norm for call in calls))
        kinds = {norm.kind if norm.swappable else "" for norm in norms}
        kind = kinds.pop() if len(kinds) == 1 else ""
        if kind == "batch" and network.samples and all(network.gets_a_part(call) for call in calls):
            kind = "parts"
        swap = swap_code(network, norms, "one_value", groups=kind == "group")
        kind = "" if kind in ("group", "instance") and not swap else kind
        mend = ONE_VALUE[kind].format(paths=list(few), swap=swap)
        yield Found(few, few[path], "one" if few[path] < 2 else "two", path, mend=mend)


def eps_code(network: Network, layers: Sequence[NormSite | Call], id: str) -> str:
    """Code that sets eps, up to its number, for the norms of a finding."""
    paths = list(dict.fromkeys(map(path_of, layers)))
    module = network.modules.get(paths[0])
    if name := next((name for name in EPS if isinstance(getattr(module, name, None), float)), ""):
        return f"for m in {codes(network, paths, id)}: m.{name} ="
    return f"# in {network.code(paths[0])}: eps ="


@finding
def eps(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm divides by sqrt(variance + eps). Where eps is not small against what arrives, the output keeps part of
    the input's scale."""
    shares, medians, norms = [], {}, {call.norm.path: call.norm for call in network.calls}
    zero = [call for call in network.understood if call.norm.layer.eps == 0]
    negative = [call for call in network.understood if not call.norm.layer.eps >= 0]  # or no number
    for case, found in (("negative", negative), ("zero", zero)):
        if found:
            fields = {"set": eps_code(network, found, "eps"), "usual": limit.usual}
            yield Found(found, found[0].norm.layer.eps, case, **fields)
    for call in network.understood:
        alive, added = call.spread[call.spread > 0], call.norm.layer.eps
        if len(alive) and added > 0 and call.values > limit.few:
            shares.append((call, float((1 / (1 + alive / added)).median())))
            medians[call.norm.path] = float(alive.median())
    for worst in above(shares, limit.share):
        norm, variance, scale = norms[worst.path], medians[worst.path], (1 - worst.number) ** 0.5
        if (norm.tracked and norm.seen == 0) or (norm.layer.eps <= limit.usual and is_new(network)):
            worst.case = "untrained"  # the scale at initialization says little
        least = min(medians[path] for path in worst.layers)
        worst.fields = {
            "eps": norm.layer.eps,
            "variance": variance,
            "size": scale,
            "smaller": least / SMALLER,
        }
        worst.fields["set"] = eps_code(network, [norms[path] for path in worst.layers], "eps")
        yield worst


def is_new(network: Network) -> bool:
    """Whether all gains are as they were made, one number for each norm."""
    gains = [c.norm.layer.gain for c in network.understood if c.norm.layer.gain is not None]
    return bool(gains) and all(bool((gain == gain.flatten()[0]).all()) for gain in gains)


@finding
def constant_channels(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A constant channel has variance 0: its output is the shift, and eps alone decides the gradient, which it
    multiplies by 1 / sqrt(eps)."""
    mask, shares = mask_of(network), defaultdict[NormSite, list[float]](list)
    for call in network.understood:
        if call.values > limit.few and call.norm.centers:
            flat = call.var.sqrt() <= limit.constant * call.mean.abs()
            if bool(flat.any()) and bool((real := real_statistics(call, mask)).any()):
                flat = flat[real]
            shares[call.norm].append(float(flat.float().mean()))
    # A norm of a state that starts at 0, as in a recurrent cell, is constant at its first call alone.
    yield from above(((norm, min(calls)) for norm, calls in shares.items()), limit.share)


@finding
def overflow(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """float16 ends at 65,504 and squares overflow from 256 on. torch's own norms accumulate in float32, many
    written by hand do not. bfloat16 has the range and three digits."""
    precision = network.options.need("precision")
    _ = network.trace  # which fails where nothing can be said
    kind, finite = PRECISIONS[precision], [call for call in network.arriving if math.isfinite(call.largest)]
    if kind not in HALF or not finite:
        return
    shares, names = [], {}
    with network.quiet(train=True), torch.no_grad():
        for call in finite:
            shares.append((call, lost_in(call, kind, "mixed" in precision)))
            names[call.norm.path] = type(call.norm.module).__name__
    for worst in above(shares, case="lost", precision=precision, name=names.get):
        worst.fields["share"] = f"{worst.number:.0%}" if worst.number >= LEAST else f"less than {LEAST:.0%}"
        yield worst
    most, end = max(finite, key=lambda call: call.largest), torch.finfo(kind).max
    margin = end / max(most.largest, TINY)
    if margin < limit.margin:
        yield Found([most], margin, "margin", largest=most.largest, precision=precision, end=end)


def lost_in(call: Call, kind: torch.dtype, mixed: bool) -> float:
    """Share of a norm's outputs that are not finite in a precision, or of statistics that are all zero, where float32
    makes numbers of the same rounded values. A single value that rounds to the mean is 0 in both."""
    if call.norm.tracked or type(call.norm.module).__module__.startswith("torch.nn"):
        return 0.0  # torch's own kernels accumulate in float32
    layer, x = copy.deepcopy(call.norm.module).eval(), call.x[: max(1, SAMPLE // max(1, call.x[0].numel()))]
    x = torch.cat([x, torch.zeros_like(x[:1])]).to(kind)  # padding: an eps that rounds to 0 divides 0 by 0
    device = x.device.type
    try:
        with torch.autocast(device, enabled=False):
            right = tensor_of(call.again(layer.float(), x.float()))
        with torch.autocast(device, dtype=kind, enabled=mixed):
            there = tensor_of(call.again(layer if mixed else layer.to(kind), x))
    except (RuntimeError, TypeError, ValueError):
        return 0.0  # the kernel does not exist here, or it takes more than x
    overflown = ~there.isfinite() & right.isfinite()
    gone = (there == 0) & (right != 0)
    if not call.understood or there.shape != x.shape:
        return float(overflown.float().mean())
    whole = [(call.norm.groups(y) != 0).any(1) for y in (there, right)]
    rows = (~whole[0] & whole[1])[:, None] & call.norm.groups(gone.float()).bool()
    return float(overflown.float().mean()) + float(rows.float().mean())
