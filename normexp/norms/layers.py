"""Recognize normalization layers of torch, torchvision, timm and Hugging Face.

A layer is recognized by its base classes, its attributes and its outputs. Those libraries are not imported, and neither
is this project.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

BATCH = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
INSTANCE = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
LAZY = nn.modules.lazy.LazyModuleMixin
GAINS, SHIFTS = ("weight", "gamma", "scale", "g", "a_2"), ("bias", "beta", "shift", "b", "b_2")
EPS = ("eps", "variance_epsilon", "epsilon", "norm_eps", "layer_norm_epsilon")
TINY_IMAGE = (2, 3)  # height and width of the probe


@dataclass(frozen=True)
class NormLayer:
    """A recognized normalization layer.

    Attributes:
        kind: batch, instance, group, layer or rms; `project` for one of this project.
        channel_dim: 1 for (N, C, ...), -1 for (..., C).
        gain, shift: the factor and the summand of each channel; None if there is none.
        trained: whether gain and shift are trained.
        keep: `1 - momentum` of the running estimate; None for a plain average of all batches, or for no estimate.
        activations: modules that the layer runs after it has normalized, as timm's layers do.
    """

    kind: str
    num_features: int
    channel_dim: int
    eps: float
    gain: Tensor | None
    shift: Tensor | None
    trained: bool = True
    keep: float | None = None
    activations: tuple[nn.Module, ...] = ()


def norm_layer(module: nn.Module) -> NormLayer | str | None:
    """The normalization layer that a module is. A reason, in one line, if it is one that cannot be replaced. None if it
    is none."""
    if isinstance(module, LAZY) and "Norm" in type(module).__name__:
        return "has not seen its input yet; call the network once"
    if hasattr(module, "batch_statistics") and hasattr(module, "channel_dim"):
        keep = getattr(module, "ema_keep", None)
        gain = module.channel_gain() if hasattr(module, "channel_gain") else module.weight
        return NormLayer(
            "project", module.num_features, module.channel_dim, module.eps, gain, module.bias, keep=keep
        )
    if isinstance(module, nn.LocalResponseNorm):
        return "has no channels of its own"
    if isinstance(module, (*BATCH, *INSTANCE, nn.GroupNorm)):
        return _of_torch(module)
    own = {
        name for name, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    }
    # The frozen BatchNorm of torchvision and timm has no training mode.
    if {"running_mean", "running_var"} <= own:
        eps = getattr(module, "eps", 1e-5)
        gain, shift, frozen = getattr(module, "weight", None), getattr(module, "bias", None), None
        return NormLayer(
            "batch", len(module.running_mean), 1, eps, gain, shift, False, frozen, _activations(module)
        )
    named = "norm" in type(module).__name__.lower()
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)) or (named and _looks_like_one(module)):
        return _by_what_it_computes(module)
    return None


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalization layer, judged only by its class and attributes."""
    if isinstance(module, (*BATCH, *INSTANCE, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.LocalResponseNorm)):
        return True
    if hasattr(module, "batch_statistics"):  # of this project
        return True
    if {"running_mean", "running_var"} <= {name for name, _ in module.named_buffers(recurse=False)}:
        return True
    return "norm" in type(module).__name__.lower() and _looks_like_one(module)


def _of_torch(module: nn.Module) -> NormLayer:
    kind = (
        "batch" if isinstance(module, BATCH) else "group" if isinstance(module, nn.GroupNorm) else "instance"
    )
    momentum = getattr(module, "momentum", None)
    keep = None if momentum is None else 1 - momentum
    size = module.num_channels if kind == "group" else module.num_features
    trained = module.weight is None or module.weight.requires_grad
    return NormLayer(
        kind, size, 1, module.eps, module.weight, module.bias, trained, keep, _activations(module)
    )


def _activations(module: nn.Module) -> tuple[nn.Module, ...]:
    """The children that run after the norm, in order, as in timm's BatchNormAct2d."""
    found = [getattr(module, name, None) for name in ("drop", "act")]
    return tuple(m for m in found if isinstance(m, nn.Module) and not isinstance(m, nn.Identity))


def _looks_like_one(module: nn.Module) -> bool:
    """Whether a module has an eps, only parameters of one axis, and only activations inside."""
    parameters = list(module.parameters())
    inside = [child for child in module.children() if child not in _activations(module)]
    plain = all(isinstance(child, nn.Identity) for child in inside)
    return plain and bool(parameters) and all(p.dim() == 1 for p in parameters) and _eps(module) is not None


def _eps(module: nn.Module) -> float | None:
    for name in EPS:
        value = getattr(module, name, None)
        if isinstance(value, float):
            return value
    # With eps=None, torch's RMSNorm takes the smallest step of the type.
    return torch.finfo(torch.get_default_dtype()).eps if isinstance(module, nn.RMSNorm) else None


def _first(module: nn.Module, names: tuple[str, ...]) -> Tensor | None:
    return next((value for name in names if isinstance(value := getattr(module, name, None), Tensor)), None)


def _by_what_it_computes(module: nn.Module) -> NormLayer | str:
    """Recognize a layer that normalizes single samples by its outputs for a few random numbers: its axis, whether it
    centers, and whether its gain is `weight` or, as in Gemma, 1 + `weight`."""
    shape = getattr(module, "normalized_shape", None)
    gain, shift, eps = _first(module, GAINS), _first(module, SHIFTS), _eps(module)
    if shape is not None and len(tuple(shape)) != 1:
        return f"normalizes over {len(tuple(shape))} axes, {tuple(shape)}, with a gain for each place"
    if gain is not None and gain.dim() != 1:
        return f"has a gain of shape {tuple(gain.shape)}, not one value a channel"
    size = int(next(iter(shape))) if shape is not None else len(gain) if gain is not None else 0
    if not size or eps is None:
        return "has no size that could be read"
    trained = all(p.requires_grad for p in module.parameters(recurse=False))
    activations = _activations(module)
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        kind = "layer" if type(module) is nn.LayerNorm else "rms"
        return NormLayer(kind, size, -1, eps, gain, shift, trained)
    for dim in (-1, 1):
        answer, x = _answer(module, size, dim, gain)
        if answer is None:
            continue
        for kind, centered in (("layer", True), ("rms", False)):
            for multiplies in (gain, None if gain is None else 1 + gain):
                if _agree(answer, _formula(x, centered, multiplies, shift, eps, dim, activations)):
                    return NormLayer(kind, size, dim, eps, multiplies, shift, trained, None, activations)
    return "computes something else than LayerNorm or RMSNorm over its channels"


def _answer(
    module: nn.Module, size: int, dim: int, like: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    values = torch.randn(2, *TINY_IMAGE, size, generator=torch.Generator().manual_seed(0))
    x = values if dim == -1 else values.movedim(-1, 1)
    x = x if like is None else x.to(like)
    try:
        with torch.no_grad():
            answer = module.forward(x.clone())
        return (answer if isinstance(answer, Tensor) and answer.shape == x.shape else None), x
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, AssertionError):
        return None, x  # it needs another shape


def _formula(
    x: Tensor,
    centered: bool,
    gain: Tensor | None,
    shift: Tensor | None,
    eps: float,
    dim: int,
    activations: tuple[nn.Module, ...],
) -> Tensor:
    y: Tensor = x.double().movedim(dim, -1)
    y = y - y.mean(-1, keepdim=True) if centered else y
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    y = y if gain is None else y * gain.double()
    y = (y if shift is None else y + shift.double()).movedim(-1, dim)
    for activation in activations:
        y = activation.forward(y.to(x.dtype))
    return y.detach()


def _agree(a: Tensor, b: Tensor) -> bool:
    tolerance = 16 * math.sqrt(torch.finfo(a.dtype).eps) / 100
    return bool(a.is_meta or torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance))
