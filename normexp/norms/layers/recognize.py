"""Recognize normalization layers: torch's by their class, all others by their outputs.

No other library is imported, and neither is this project.
"""

import functools
import inspect
import itertools
import re
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from normexp.norms.layers.layer import NormLayer
from normexp.norms.layers.outputs import (
    ANY_SIZE,
    FAR,
    Probe,
    activations_of,
    answer,
    fit,
    inputs,
    match,
    outlying,
    same_output,
    standardized,
    twin_of,
)
from normexp.norms.layers.running import Names, running_names, running_of

BATCH = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
INSTANCE = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
TORCH = (*BATCH, *INSTANCE, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
LAZY = nn.modules.lazy.LazyModuleMixin
EPS = ("eps", "variance_epsilon", "epsilon", "norm_eps", "layer_norm_epsilon")
SIZES = ("normalized_shape", "num_features", "num_channels", "hidden_size")
ELSE = "computes something else than a norm over its channels"
REPLACED = "its forward was replaced on the object"
NAMED = re.compile(r"norm(?!al(?!i[sz]))|rms|dyt|dynamic_?tanh|(^|_)(ln|bn|gn)(_|\d|$)", re.I)


def norm_layer(module: nn.Module, path: str = "") -> NormLayer | str | None:
    """The normalization layer that a module is. A reason, in one line, for one that is not understood. None if it is
    none.

    Args:
        path: in its network. A class that is not named as a norm and has no parameters is tried only if the attribute
            in which it stands is.
    """
    found = _recognized(module, path)
    _is_norm.setdefault(module, {})[_stands_as_norm(path)] = found is not None
    return found


def _recognized(module: nn.Module, path: str) -> NormLayer | str | None:
    kind = type(module)
    if _passes_on(module):
        return None
    if isinstance(module, LAZY) and "Norm" in kind.__name__:
        return "has not seen its input yet; call the network once"
    if hasattr(module, "batch_statistics") and hasattr(module, "channel_dim"):
        return _of_project(module)
    if isinstance(module, nn.LocalResponseNorm):
        return "has no channels of its own"
    if isinstance(module, torch.jit.ScriptModule):
        named = NAMED.search(module.original_name)
        return "is compiled by TorchScript, so nothing inside can be read or replaced" if named else None
    if kind in TORCH:
        return _of_torch(module, kind)
    if base := next((cls for cls in TORCH if isinstance(module, cls)), None):
        return _of_subclass(module, base)
    if "forward" not in module.__dict__ and (running := running_of(module)):
        return _of_running_statistics(module, *running)
    return _by_outputs(module, path)


# Module -> whether its attribute is named as a norm -> whether it is one. Monitors ask `is_norm` at each call;
# `norm_layer` looks anew, because what the layer computes may have changed.
_is_norm: weakref.WeakKeyDictionary[nn.Module, dict[bool, bool]] = weakref.WeakKeyDictionary()


def is_norm(module: nn.Module, path: str = "") -> bool:
    """Whether a module is a normalization layer, understood or not; `path` as in `norm_layer`. A module is tried
    once."""
    if isinstance(module, (*TORCH, nn.LocalResponseNorm)):
        return True
    if hasattr(module, "batch_statistics"):
        return not _passes_on(module)
    known, named = _is_norm.get(module, {}), _stands_as_norm(path)
    return any(known.values()) or (known[named] if named in known else norm_layer(module, path) is not None)


def _passes_on(module: nn.Module) -> bool:
    """Whether a layer is a wrapper, such as FSDP and checkpoints put around a norm, that gives the attributes of the
    layer inside as its own. It is no norm, and a call of its twin would move the statistics of that layer."""
    plain = type(module).__getattr__ is nn.Module.__getattr__
    return bool(module._modules) and not plain and not isinstance(module, (*TORCH, torch.jit.ScriptModule))


def _of_project(module: Any) -> NormLayer:
    """A norm of this project, or of a user by its base class. It says what it is as far as the contract asks; the rest
    is read off its outputs."""
    averages = getattr(module, "population_statistics", "") == "cumulative"
    gain = module.channel_gain() if hasattr(module, "channel_gain") else module.weight
    norm = NormLayer(
        "layer", module.num_features, module.channel_dim, module.eps, gain, module.bias, averages=averages,
        keep=None if averages else getattr(module, "ema_keep", None), groups=getattr(module, "num_groups", 1),
        frozen=getattr(module, "freeze_after", None) == 0, correction=module.correction,
        eps_position=module.eps_position, running=running_names(module),
    )  # fmt: skip
    if module.pointwise:
        return replace(norm, kind="pointwise")
    # Layers of one class and width with the same options are of one kind; with a group a channel another one.
    options = {key: value for key, value in vars(module).items() if isinstance(value, str | float | bool)}
    key = (type(module), module.num_features, module.channel_dim, norm.groups, norm.frozen, *options.items())
    if key not in _project_kinds:
        _project_kinds[key] = _kind_of_project(module, norm)
    return replace(norm, **_project_kinds[key])


_project_kinds: dict[tuple, dict[str, Any]] = {}


def _kind_of_project(module: Any, norm: NormLayer) -> dict[str, Any]:
    """The fields of `norm` that its outputs show."""
    batch = module.batch_statistics
    found, _ = match(module, [(module.num_features,)], norm.groups)
    exact = found is not None and found.channel_dim == module.channel_dim and not found.stays
    if exact and (found.kind == "batch") == batch:
        return {"kind": found.kind, "per_position": found.per_position, "groups": found.groups}
    grouped = "group" if hasattr(module, "num_groups") else "layer" if _centers(module) else "rms"
    return {"kind": "batch" if batch else grouped, "exact": norm.frozen}


def _centers(module: Any) -> bool:
    """Whether a number added to all inputs leaves the outputs as they are."""
    twin, shape = twin_of(module, training=True), (module.num_features,)
    calls = ((answer(twin.forward, x), answer(twin.forward, x + 3)) for x, _ in inputs(shape, twin))
    return all(same_output(a, b) for a, b in calls if a is not None)


def _of_torch(module: nn.Module, base: type[nn.Module]) -> NormLayer:
    """A layer that computes what a class of torch's does."""
    kinds = {nn.GroupNorm: "group", nn.LayerNorm: "layer", nn.RMSNorm: "rms"}
    kind = "batch" if base in BATCH else kinds.get(base, "instance")
    momentum, shape = getattr(module, "momentum", None), getattr(module, "normalized_shape", (0,))
    size = getattr(module, "num_channels", None) or getattr(module, "num_features", None) or shape[-1]
    stays = _why_it_stays(module)
    if len(shape) > 1:
        stays = f"normalizes over {len(shape)} axes, {tuple(shape)}, with a gain for each place"
    return NormLayer(
        kind, size, -1 if kind in ("layer", "rms") else 1, _eps(module) or 0.0, module.weight,
        getattr(module, "bias", None), trained=all(p.requires_grad for p in module.parameters(recurse=False)),
        keep=None if momentum is None else 1 - momentum, activations=activations_of(module),
        averages=momentum is None and getattr(module, "running_mean", None) is not None,
        groups=getattr(module, "num_groups", 1), axes=len(shape), stays=stays,
        positions=INSTANCE.index(base) + 1 if base in INSTANCE else None, running=running_names(module),
    )  # fmt: skip


def _of_subclass(module: nn.Module, base: type[nn.Module]) -> NormLayer | str:
    """A subclass of torch's layers: torch's where its outputs are equal; else one over the axes of torch's, which
    stays, or for LayerNorm and RMSNorm, whose axes a subclass may move, what its outputs show."""
    known = (base.forward, nn.BatchNorm2d.forward) if base in BATCH else (base.forward,)
    plain = type(module).forward in known or _computes_as(module, base)
    if plain or base not in (nn.LayerNorm, nn.RMSNorm):
        layer = _of_torch(module, base)
        if not plain and base in BATCH and _in_parts(module):
            return "takes statistics of parts of the batch"
        more = "" if plain else f"its forward does more than that of torch's {base.__name__}"
        return replace(layer, stays=layer.stays or more)
    return _by_outputs(module) or ELSE


def _computes_as(module: nn.Module, base: type[nn.Module]) -> bool:
    """Whether a subclass gives the outputs of its base class in both modes, and moves its buffers alike."""
    agreed = False
    if "forward" in module.__dict__:
        return False
    for x, _ in inputs((_channels(module),), twin_of(module, training=False)):
        tried = [(x, 1.0), *((outlying(x), far) for far in FAR)]
        for training, (given, far) in itertools.product((True, False), tried):
            ours, torchs = (twin_of(module, training=training, size=far) for _ in range(2))
            if (expected := answer(functools.partial(base.forward, torchs), given)) is None:
                break
            buffers = zip(ours.buffers(recurse=False), torchs.buffers(recurse=False), strict=True)
            if not same_output(answer(ours.forward, given), expected) or not all(
                a.equal(b) for a, b in buffers
            ):
                return False
            agreed = True
    return agreed and _runs_its_activations(module)


def _in_parts(module: nn.Module) -> bool:
    """Whether a BatchNorm's output for the first samples of a large batch stays when the last one changes, as in ghost
    BatchNorm."""
    for x, channel_dim in inputs((_channels(module),), twin_of(module, training=False)):
        many = torch.cat([x] * 100)
        other = torch.cat([many[:-1], many[-1:] + 100])
        pair = [answer(twin_of(module, training=True).forward, given) for given in (many, other)]
        if channel_dim == 1 and pair[0] is not None and pair[1] is not None:
            return torch.equal(pair[0][: len(x)], pair[1][: len(x)])
    return False


def _of_running_statistics(module: nn.Module, names: Names, keep: float | None) -> NormLayer:
    """A BatchNorm that is none of torch's, such as the frozen one of torchvision and timm, or one by hand."""
    size, eps = getattr(module, names[0]).numel(), _eps(module)
    trained, _ = match(module, [(size,)])
    learns = trained is not None and trained.kind == "batch"
    eps = eps if eps is not None else trained.eps if learns else 1e-5
    channel = trained.channel_dim if learns else 1
    base = NormLayer(
        "batch", size, channel, eps, running=names, keep=keep, activations=activations_of(module)
    )
    twin = twin_of(module, training=False, running=names)
    for x, channel_dim in inputs((size,), twin):
        probe = Probe(module, twin, x, channel_dim, (size,))
        if channel_dim == channel and (y := probe.answer(x)) is not None:
            mean, var = (probe.wide(getattr(twin, name).flatten()) for name in names)
            found = probe.with_fit(base, (x - mean) * (var + eps).rsqrt(), y)
            frozen = same_output(answer(twin_of(module, training=True, running=names).forward, x), y)
            if found is None or not (frozen or learns):
                break
            return replace(
                found, frozen=frozen,
                trained=not frozen and all(p.requires_grad for p in module.parameters(recurse=False)),
                stays=found.stays
                or _why_it_stays(module, names)
                or (_clips(module, trained, (size,)) if trained is not None and learns else ""),
            )  # fmt: skip
    stays = "has running statistics, and computes something else than BatchNorm"
    return replace(base, keep=None, trained=False, understood=False, stays=stays)


def _by_outputs(module: nn.Module, path: str = "") -> NormLayer | str | None:
    """A layer of a stranger's class that normalizes single samples, by its outputs."""
    params = list(module.parameters(recurse=False))
    shapes = {tuple(n for n in p.shape if n > 1) for p in params}
    named, axes = NAMED.search(type(module).__name__), max(map(len, shapes), default=0)
    inside = set(module.children()) - set(activations_of(module))
    foreign = not type(module).__module__.startswith("torch.") and all(type(m) is nn.Identity for m in inside)
    if not foreign or axes > 2 or not (named or (params and axes <= 1) or _stands_as_norm(path)):
        return None
    if "forward" in module.__dict__:  # of this very object: a twin would call it
        return REPLACED if named else None
    size = _channels(module)
    sizes = sorted(filter(None, shapes), key=len, reverse=True) or [(size or ANY_SIZE,)]
    found, called = match(module, sizes, getattr(module, "num_groups", 1))
    if found is None:
        reason = ELSE if called else "gives no tensor of its shape for a tensor alone"
        return reason if (named and called) or (params and (named or _stands_as_norm(path))) else None
    if found.kind == "pointwise" and found.stays and not (named and params):
        return None
    stays = found.stays or _why_it_stays(module)
    if not (any(shapes) or size):
        found = replace(found, num_features=0, gain=None)  # of a size that was tried
        stays = stays or "does not say how many channels it gets"
    if not stays and not (_same_in_both_modes(module, found, sizes) and _runs_its_activations(module)):
        stays = "computes something else in eval mode"
    if not stays:
        stays = _clips(module, found, sizes[0])
    trained = all(p.requires_grad for p in params)
    return replace(found, trained=trained, activations=activations_of(module), stays=stays)


def _same_in_both_modes(module: nn.Module, layer: NormLayer, sizes: list[tuple[int, ...]]) -> bool:
    for x, channel_dim in inputs(sizes[0], twin_of(module, training=False)):
        if channel_dim == layer.channel_dim:
            a, b = (answer(twin_of(module, training=mode).forward, x) for mode in (True, False))
            if a is not None or b is not None:
                return same_output(a, b)
    return False


def _clips(module: nn.Module, layer: NormLayer, size: tuple[int, ...]) -> str:
    """Where another formula than a layer's gives the outputs: for inputs with an outlier, or for large or negative
    parameters; empty if it does nowhere."""
    for far in FAR if layer.kind != "pointwise" else ():
        twin = twin_of(module, training=True, size=far)
        given = [outlying(x) for x, channel_dim in inputs(size, twin) if channel_dim == layer.channel_dim]
        probes = [Probe(module, twin, x, layer.channel_dim, size) for x in given]
        pairs = [(probe, standardized(probe.x, layer), probe.answer(probe.x)) for probe in probes]
        pairs = [(probe, z, y) for probe, z, y in pairs if y is not None]
        linear = [each for each in pairs if fit(*each[1:], layer.channel_dim, size) is not None]
        if pairs and not linear and far == 1:
            return "computes something else on large values, as one that clips"
        if linear and all(probe.with_fit(layer, z, y) is None for probe, z, y in linear):
            return "computes something else with large parameters, as one that clips"
    return ""


def _runs_its_activations(module: nn.Module) -> bool:
    """Whether a layer is its norm followed by its activations."""
    if not activations_of(module):
        return True
    whole, norm = (twin_of(module, training=False, activations=included) for included in (True, False))
    for x, _ in inputs((_channels(module),), twin_of(module, training=False)):
        if (y := answer(norm.forward, x)) is not None:
            for activation in activations_of(module):
                y = answer(twin_of(activation, training=False).forward, y) if y is not None else None
            return same_output(answer(whole.forward, x), y)
    return False


def _why_it_stays(module: nn.Module, running: Sequence[str] = ()) -> str:
    """Why no other layer can take the place of one, as far as its own attributes show, beside its running statistics;
    empty if one can."""
    if "forward" in module.__dict__:
        return REPLACED
    plain = [name for name, value in module.__dict__.items() if isinstance(value, Tensor)]
    if "parametrizations" in module._modules or set(plain) - set(running):
        return "its gain is computed from other parameters"
    more = list(inspect.signature(type(module).forward).parameters)[2:]
    return f"takes more than its input: {', '.join(more)}" if more else ""


def _stands_as_norm(path: str) -> bool:
    """Whether the attribute in a path, its last name that is no index of a list, is named as a norm."""
    attribute = next((part for part in reversed(path.split(".")) if not part.isdigit()), "")
    return NAMED.search(attribute) is not None


def _eps(module: nn.Module) -> float | None:
    eps = next((value for name in EPS if isinstance(value := getattr(module, name, None), float)), None)
    # With eps=None, torch's RMSNorm takes the smallest step of the type.
    rms = isinstance(module, nn.RMSNorm)
    return torch.finfo(torch.get_default_dtype()).eps if eps is None and rms else eps


def _channels(module: nn.Module) -> int:
    """How many channels a layer has; 0 if it does not say."""
    for name in SIZES:
        value = getattr(module, name, None)
        value = tuple(value)[-1] if isinstance(value, tuple | list | torch.Size) and value else value
        if isinstance(value, int) and value > 1:
            return value
    most = max((p.numel() for p in module.parameters(recurse=False)), default=0)
    return most if most > 1 else 0
