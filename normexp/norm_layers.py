"""Which modules are normalization layers, whoever wrote them: torch's own, torchvision's, timm's, Hugging Face's.

They are known by what they are derived from, by their attributes, and by what they compute, never by importing those
libraries. Knows nothing of the project.
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
TINY_IMAGE = (2, 3)  # of the probe


@dataclass(frozen=True)
class NormLayer:
    """What a normalization layer is.

    Attributes:
        kind: batch, instance, group, layer or rms; `project` for one of this project.
        channel_dim: 1 for (N, C, ...), -1 for (..., C).
        gain, shift: as they multiply and are added, one value a channel; None where there is none.
        trained: whether gain and shift are parameters that train.
        keep: of a running estimate, `1 - momentum`; None for a plain average of all batches, or no estimate.
        activations: what the layer runs after it has normalized, as timm's do.
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
    """What a module is as a normalization layer; a reason, in one line, where it is one that nothing can stand for;
    None where it is none."""
    if isinstance(module, LAZY) and "Norm" in type(module).__name__:
        return "has not seen its input yet; call the network once"
    if hasattr(module, "batch_statistics") and hasattr(module, "channel_dim"):
        keep = getattr(module, "ema_keep", None)
        return NormLayer(
            "project",
            module.num_features,
            module.channel_dim,
            module.eps,
            module.weight,
            module.bias,
            keep=keep,
        )
    if isinstance(module, nn.LocalResponseNorm):
        return "has no channels of its own"
    if isinstance(module, (*BATCH, *INSTANCE, nn.GroupNorm)):
        return _of_torch(module)
    own = {
        name for name, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    }
    if {
        "running_mean",
        "running_var",
    } <= own:  # torchvision's and timm's frozen BatchNorm, without a training mode
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
    """Whether a module is a normalization layer, by its class and attributes alone."""
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
    """Children run in this order after the norm (timm's BatchNormAct2d and its kin)."""
    found = [getattr(module, name, None) for name in ("drop", "act")]
    return tuple(m for m in found if isinstance(m, nn.Module) and not isinstance(m, nn.Identity))


def _looks_like_one(module: nn.Module) -> bool:
    """Has parameters of one axis alone, an eps, and nothing inside but activations."""
    parameters = list(module.parameters())
    inside = [child for child in module.children() if child not in _activations(module)]
    plain = all(isinstance(child, nn.Identity) for child in inside)
    return plain and bool(parameters) and all(p.dim() == 1 for p in parameters) and _eps(module) is not None


def _eps(module: nn.Module) -> float | None:
    for name in EPS:
        value = getattr(module, name, None)
        if isinstance(value, float):
            return value
    # torch's RMSNorm with eps=None takes the smallest step of the type
    return torch.finfo(torch.get_default_dtype()).eps if isinstance(module, nn.RMSNorm) else None


def _first(module: nn.Module, names: tuple[str, ...]) -> Tensor | None:
    return next((value for name in names if isinstance(value := getattr(module, name, None), Tensor)), None)


def _by_what_it_computes(module: nn.Module) -> NormLayer | str:
    """A layer of one sample, known by its answer to a few random numbers: which axis, centered or not, and whether the
    gain is `weight` or, as Gemma has it, 1 + `weight`."""
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
        return None, x  # it takes another shape


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
