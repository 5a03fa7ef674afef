"""The layer that takes the place of another: what it keeps, what it cannot keep, and whether it computes the same where
it should."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from normexp.format import pluralize
from normexp.norms.layers.layer import NormLayer
from normexp.norms.layers.outputs import answer, inputs, same_output, twin_of
from normexp.norms.layers.recognize import norm_layer
from normexp.norms.layers.running import Names, running_names

AFFINE = {(True, True): "trained", (True, False): "gain", (False, True): "bias", (False, False): "none"}
Options = dict[str, Any]


def successor(
    old: nn.Module, known: NormLayer, factory: Callable[..., nn.Module], chosen: Options | None, index: int
) -> tuple[nn.Module | None, list[str], list[str]]:
    """(the new layer, what it kept of `old`, notes on what it could not keep). No layer, and the reason as the note, if
    it is of the same kind and formula and still gives another output.

    Args:
        known: what `old` is.
        chosen: the options that a user set for a named norm; None for a user's factory, whose options are not changed.
        index: of the layer, from 1.
    """
    make = functools.partial(factory, known.num_features, channel_dim=known.channel_dim, layer=index)
    kept = {} if chosen is None else _kept_options(make, known, chosen)
    try:
        new = make(**kept)
    except ValueError:  # such as ScaleNorm, which always has a gain
        kept.pop("affine", None)
        new = make(**kept)
    if not isinstance(new, nn.Module):
        raise ValueError(f"norm: the factory gave {type(new).__name__}, which is no layer; return a module")
    if chosen is not None and (more := _kept_formula(make, new, old, known, chosen)):
        kept |= more
        new = make(**kept)
    carried, notes = _carry(old, known, new)
    options = [f"{key}={value}" for key, value in kept.items() if key not in ("affine", "num_groups")]
    if kept.get("affine") == "gain" and known.shift is None and _option(make, "affine") == "trained":
        notes.append("has no shift, as before")
    groups, asked = kept.get("num_groups"), _option(make, "num_groups")
    keeps = known.kind == "group" and "num_groups" not in (chosen or {})  # which it keeps
    if groups and groups != asked and not keeps:
        divide = f"do not divide its {pluralize(known.num_features, 'channel')}"
        reason = divide if known.num_features % asked else "would have one channel each"
        notes.append(f"{asked} groups {reason}: {pluralize(groups, 'group')}")
    if not any("is lost" in note for note in notes) and (mode := _differs(old, known, new)):
        return None, [], [f"{type(new).__name__} of the same formula gives another output in {mode} mode"]
    new = nn.Sequential(new, *known.activations) if known.activations else new
    return new.train(old.training), [*options, *carried], notes


def _option(make: functools.partial, name: str) -> Any:
    """An option of a factory, as it is set or by default; None if it takes none of this name."""
    parameter = inspect.signature(make.func).parameters.get(name)
    return None if parameter is None else make.keywords.get(name, parameter.default)


def _kept_options(make: functools.partial, old: NormLayer, chosen: Options) -> Options:
    """Options of a named norm that follow from the old layer, unless the user set them."""
    has = (old.gain is not None, old.shift is not None)
    offered = {word: parts for parts, word in AFFINE.items()}.get(_option(make, "affine"))
    kept: Options = {} if old.kind == "pointwise" else {"eps": old.eps}
    if offered and (any(has) or old.kind != "pointwise"):
        kept["affine"] = AFFINE[has[0] and offered[0], has[1] and offered[1]]
    if old.kind == "batch" and _option(make, "population_statistics") == "ema":
        if old.frozen:
            kept["freeze_after"] = 0
        elif old.keep is not None:
            kept["ema_keep"] = old.keep
        elif old.averages:
            kept["population_statistics"] = "cumulative"
    kept = _taken(make, kept, chosen)
    if (groups := _option(make, "num_groups")) is not None:
        keeps = old.kind == "group" and "num_groups" not in chosen
        fitting = math.gcd if "num_groups" in chosen else groups_by_default
        kept["num_groups"] = old.groups if keeps else fitting(groups, old.num_features)
    return kept


def groups_by_default(usual: int, channels: int) -> int:
    """The groups that a swap gives so many channels where nobody chose: the greatest common divisor with the usual
    number. If that leaves one channel a group, 8 channels: a group of one value outputs its shift."""
    groups = math.gcd(usual, channels)
    return math.gcd(usual, max(channels // 8, 1)) if groups == channels else groups


def _taken(make: functools.partial, kept: Options, chosen: Options) -> Options:
    takes = inspect.signature(make.func).parameters
    return {key: value for key, value in kept.items() if key in takes and key not in chosen}


def _kept_formula(
    make: functools.partial, new: nn.Module, old: nn.Module, known: NormLayer, chosen: Options
) -> Options:
    """How the old layer divides and rounds, for a new one of the same kind that does it in the usual way."""
    is_now = norm_layer(new)
    if not isinstance(is_now, NormLayer) or is_now.kind != known.kind:
        return {}
    usual = is_now.correction == 0 and is_now.eps_position == "inside"
    kept: Options = {}
    if usual and (known.correction, known.eps_position) != (0, "inside"):
        kept = {"correction": known.correction, "eps_position": known.eps_position}
    if known.kind == "rms" and _rounds_first(old, known):
        kept["rounding"] = "before_gain"
    return _taken(make, kept, chosen)


def _rounds_first(old: nn.Module, known: NormLayer) -> bool:
    """Whether a layer rounds to half precision before it multiplies by its gain, as Llama's: with a gain that bfloat16
    cannot hold in full, its outputs are products of rounded numbers."""
    twin = twin_of(old, training=False, dtype=torch.bfloat16)
    for x, channel_dim in inputs((known.num_features,), twin):
        y = answer(twin.forward, x.bfloat16()) if channel_dim == known.channel_dim else None
        if y is None or y.dtype != torch.bfloat16 or known.gain is None:
            continue
        wide = twin_of(old, training=False)
        for name, value in twin.named_parameters(recurse=False):
            wide._parameters[name] = value.float()
        exact = answer(wide.forward, x.bfloat16().float())
        return exact is not None and not torch.equal(exact.bfloat16(), y)
    return False


def _carry(old: nn.Module, known: NormLayer, new: nn.Module) -> tuple[list[str], list[str]]:
    """Give the new layer the values of the old one."""
    carried, notes = [], []
    like = known.gain if known.gain is not None else next(iter((*old.parameters(), *old.buffers())), None)
    if isinstance(like, Tensor) and like.is_floating_point():
        new.to(like.device, like.dtype)
    with torch.no_grad():
        for name, attribute, value in (("gain", "weight", known.gain), ("shift", "bias", known.shift)):
            target = getattr(new, attribute, None)
            if value is not None and target is not None and target.shape == value.shape:
                one_plus = name == "gain" and getattr(new, "gain", "") == "one_plus"
                target.copy_(value - 1 if one_plus else value)
                target.requires_grad_(known.trained and target.requires_grad)
                carried.append(name)
            elif value is not None:
                notes.append(f"its {name} is lost")
        names, ours = running_names(old), running_names(new)
        if names and ours and known.kind == "batch":
            for theirs, name in zip(names, ours, strict=True):
                getattr(new, name).copy_(getattr(old, theirs).view(-1))
            if (count := getattr(old, "num_batches_tracked", None)) is not None:
                new.num_batches_tracked.copy_(count)
            carried.append("running statistics")
            if known.frozen and getattr(new, "freeze_after", None) != 0:
                notes.append("was frozen, follows the batch while training")
        elif ours:
            notes.append("running statistics begin anew")
        elif names and _moved(old, names):
            lost = "its running statistics are lost"
            notes.append(f"{lost}, so eval mode computes something else until it is trained")
    return carried, notes


def _moved(old: nn.Module, names: Names) -> bool:
    """Whether a layer's running statistics are not at their start, 0 and 1."""
    mean, var = (getattr(old, name) for name in names)
    return not (mean.is_meta or (mean.eq(0).all() and var.eq(1).all()))


def _differs(old: nn.Module, known: NormLayer, new: nn.Module) -> str:
    """The mode in which a new layer of the old one's formula gives another output for random numbers; empty if in none,
    or if the formulas differ."""
    is_now, tensors = norm_layer(new), [*old.parameters(), *old.buffers()]
    same = isinstance(is_now, NormLayer) and is_now.exact and is_now.formula == known.formula
    if not same or any(value.is_meta for value in tensors):
        return ""
    for x, channel_dim in inputs((known.num_features,), new):
        if channel_dim != known.channel_dim or known.unbatched(x.dim()):
            continue
        for mode in ("eval", "training"):
            twins = (twin_of(layer, training=mode == "training", drawn=False) for layer in (old, new))
            a, b = (answer(twin.forward, x) for twin in twins)
            if a is not None and b is not None and not same_output(b, a):
                return mode
        if a is not None and b is not None:
            break  # one shape is enough
    return ""
