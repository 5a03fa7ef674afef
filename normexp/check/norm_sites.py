"""The norms of a network: layers, calls of functions, and norms that run though the network does not hold them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from normexp.check.inputs import root_of
from normexp.models.sites import sites_of
from normexp.monitors.listen import CalledFunction
from normexp.monitors.sites import channel_axis, channel_dim
from normexp.norms.layers import NormLayer, norm_layer
from normexp.norms.layers.outputs import same_output, standardized
from normexp.norms.layers.recognize import TORCH
from normexp.norms.layers.running import running_names

KINDS = {"layer": "sample", "rms": "sample", "pointwise": "none"}
FORWARDS = {kind.forward for kind in TORCH}  # a subclass with another may take other axes
OTHERWISE = "computes something else here than on the inputs on which it was tried"
SELF = "self"  # path of the network in that of a called function
HELD, MADE = "held in a list or a dictionary", "made anew at each call"
LATE = "made and held in the first forward pass"


@dataclass(frozen=True)
class NormSite:
    """A norm of the network.

    Attributes:
        path: its dotted path, as in `get_submodule`; of a called function, the path of the layer that calls it, a colon
            and its name.
        layer: what it computes, or why that is not understood.
        unowned: how it is held if no module held it before the pass; empty if one did.
    """

    path: str
    module: nn.Module
    layer: NormLayer = field(compare=False)
    unowned: str = field(default="", compare=False)

    def called_with(self, more: bool) -> "NormSite":
        """The norm in a call that may have more than the input. What a stranger's class, which is known by its outputs
        for an input alone, computes then is not understood."""
        return self.not_understood("is called with more than its input") if more and self.by_outputs else self

    def not_understood(self, reason: str) -> "NormSite":
        """The norm where it does not compute what was known of it."""
        return replace(self, layer=replace(self.layer, kind="unknown", understood=False, stays=reason))

    @property
    def by_outputs(self) -> bool:
        """Whether it is a stranger's class, known by its outputs for small random inputs alone."""
        torchs = isinstance(self.module, TORCH) and type(self.module).forward in FORWARDS
        return not (
            torchs or isinstance(self.module, CalledFunction) or hasattr(self.module, "batch_statistics")
        )

    def explains(self, x: Tensor, y: Tensor) -> bool:
        """Whether what it is known to compute gives y for x, as far as one sample tells. A class that takes its axes by
        number computes something else on an input of more axes than those on which it was tried."""
        layer = self.layer
        if (
            not self.by_outputs
            or self.kind not in ("sample", "instance", "group")
            or layer.stays
            or layer.activations
        ):
            return True
        expected = standardized(x[:1].detach(), layer)
        channels = x.shape[1:2] if layer.channel_dim == 1 else x.shape[x.ndim - layer.axes :]
        for part, combine in ((layer.gain, torch.mul), (layer.shift, torch.add)):
            if part is not None and part.numel() > 1:
                if part.shape != channels:
                    return False
                after = [1] * (x.ndim - 2 if layer.channel_dim == 1 else 0)
                part = part.view(*part.shape, *after)
            expected = expected if part is None else combine(expected, part.detach().double())
        known = bool(expected.isfinite().all()) and expected.shape == y[:1].shape
        # A stranger may round to the type of x and give that of its gain, as RMSNorms of transformers do in bfloat16.
        return not known or same_output(y[:1].detach(), expected, x)

    def is_inside(self, path: str) -> bool:
        """Whether it stands in the layer at a path, or is that layer."""
        return not path or self.path == path or self.path.startswith((f"{path}.", f"{path}:"))

    def named(self, tensor: str) -> str:
        """The name of one of its tensors in the network."""
        return f"{self.path}.{tensor}".lstrip(".")

    @property
    def name(self) -> str:
        """Its class, or its function."""
        if isinstance(self.module, CalledFunction):
            return f"F.{self.module.name}"
        return type(self.module).__name__

    @property
    def kind(self) -> str:
        """Over what its statistics run: batch (every axis but the channel), instance, group, or sample (the last
        axes of each sample or token); none for layers that take no statistic; unknown."""
        if not self.layer.understood:
            return "unknown"
        if self.layer.over and 0 in self.layer.over:
            return "batch"
        return KINDS.get(self.layer.kind, self.layer.kind)

    @property
    def swappable(self) -> bool:
        """Whether `normexp.norms.swap` can put another norm in its place."""
        return not self.layer.stays and ":" not in self.path

    @property
    def centers(self) -> bool:
        """Whether it subtracts a mean."""
        return self.layer.kind != "rms"

    @property
    def tracked(self) -> bool:
        """Whether it keeps running statistics."""
        return self.layer.running is not None

    @property
    def running(self) -> tuple[Tensor, Tensor]:
        """Its running mean and variance, each (C,), in their own memory."""
        mean, var = (getattr(self.module, name).detach() for name in self.layer.running or ())
        return mean.view(-1), var.view(-1)

    @property
    def seen(self) -> int | None:
        """Batches that its running statistics have seen; None if it does not count them. At their start, mean 0 and
        variance 1, they have seen none."""
        count = getattr(self.module, "num_batches_tracked", None)
        if count is not None and self.kind != "instance":  # InstanceNorm never counts
            return int(count)
        mean, var = self.running
        return 0 if not mean.any() and bool((var == 1).all()) else None

    @property
    def synced(self) -> bool:
        """Whether statistics run over all processes."""
        return "Sync" in type(self.module).__name__

    @property
    def follows_batches(self) -> bool:
        """Whether it normalizes with its batch in training mode. FrozenBatchNorm, for one, never does."""
        return self.layer.kind == "batch" and not self.layer.frozen

    def channel_dim(self, ndim: int) -> int:
        """The channel axis of an input of so many axes, counted from the first."""
        known = self.kind != "unknown"
        return (self.layer.channel_dim if known else channel_dim(self.module, ndim)) % ndim

    def groups(self, x: Tensor) -> Tensor:
        """x as one row for each statistic, (statistics, values)."""
        layer, x = self.layer, x.detach()
        x = x if x.is_floating_point() and x.element_size() >= 4 else x.float()
        dims = layer.dims(x.ndim)
        if layer.kind == "group":
            return x.reshape(len(x) * layer.groups, -1)
        kept = [axis for axis in range(x.ndim) if axis not in dims]
        return x.permute(*kept, *dims).reshape(math.prod(x.shape[axis] for axis in kept), -1)

    def mixes_positions(self, shape: Sequence[int], samples: int | None) -> bool:
        """Whether a statistic runs over the positions of a sequence or an image, as far as the shape of the input
        tells; that of rows does where a batch has more of them than samples."""
        if self.kind == "unknown":
            return len(shape) > 2
        dims = self.layer.dims(len(shape))
        if len(shape) == 2:
            return 0 in dims and shape[0] != samples
        return bool({axis for axis in dims if axis > 0} - {self.channel_dim(len(shape))})

    def description(self, shape: Sequence[int]) -> str:
        """Over what it normalizes an input of this shape."""
        known = self.kind != "unknown"
        return self.layer.description(shape) if known else f"not understood: {self.layer.stays}"


def norms_of(step: nn.Module) -> list[NormSite]:
    """The norms among the sites of a module, in forward order, each once."""
    # Before the sites, which ask whether a layer is a norm: so a stranger's is tried once.
    layers = {module: (path, layer_of(module, path)) for path, module in root_of(step).named_modules()}
    norms = dict.fromkeys(site.module for site in sites_of(step) if site.kind == "norm")
    known = (m for m in norms if m in layers and not isinstance(m, nn.LocalResponseNorm))  # not of a loss
    found = {module: layers[module] for module in known}
    return [NormSite(path, module, layer) for module, (path, layer) in found.items() if layer is not None]


def layer_of(module: nn.Module, path: str = "") -> NormLayer | None:
    """What a norm computes, or in its `stays` why that is not understood; None if it is none."""
    found = norm_layer(module, path)
    if isinstance(found, str):
        return NormLayer("unknown", 0, 1, 0.0, running=running_names(module), understood=False, stays=found)
    return found


def heard_norm(module: nn.Module, path: str, x: Tensor, step: nn.Module) -> NormSite | None:
    """A norm that is called with x as a function, or runs and is not held, inside the layer at a path."""
    if isinstance(module, CalledFunction):
        return NormSite(f"{path or SELF}:F.{module.name}", module, of_function(module, x))
    layer, attributes = layer_of(module), (value for m in step.modules() for value in vars(m).values())
    late = any(m is module for m in step.modules())
    how = LATE if late else HELD if any(holds(value, module) for value in attributes) else MADE
    return layer and NormSite(f"{path or SELF}:{type(module).__name__}", module, layer, how)


def holds(value: Any, module: nn.Module) -> bool:
    """Whether a list, tuple, set or dictionary holds a module, also in others inside it."""
    if value is module:
        return True
    inside = value.values() if isinstance(value, dict) else value
    return isinstance(value, (dict, list, tuple, set)) and any(holds(item, module) for item in inside)


def of_function(called: CalledFunction, x: Tensor) -> NormLayer:
    """What a function that is called with x computes."""
    given, eps = called.given, called.eps
    gain, shift = (given.get(name) for name in ("weight", "bias"))
    trained = any(isinstance(p, Tensor) and p.requires_grad for p in (gain, shift))
    if called.name in ("layer_norm", "rms_norm"):
        shape = given["normalized_shape"]
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = called.name.removesuffix("_norm")
        return NormLayer(kind, shape[-1], -1, eps, gain, shift, trained, axes=len(shape))
    if called.name == "normalize":
        return of_normalize(given.get("p", 2), given.get("dim", 1), eps, x)
    kind = called.name.removesuffix("_norm")
    size = len(gain) if isinstance(gain, Tensor) else 0
    momentum = given.get("momentum", 0.1)
    return NormLayer(
        kind, size, 1, eps, gain, shift, trained, keep=None if momentum is None else 1 - momentum,
        frozen=kind == "batch" and not called.training, groups=int(given.get("num_groups", 1)),
    )  # fmt: skip


def of_normalize(p: float, dim: int | tuple[int, ...], eps: float, x: Tensor) -> NormLayer:
    """What F.normalize computes: x / max(|x|, eps). A clamp at eps is near eps^2 / n beside the mean square."""
    unknown = NormLayer("unknown", 0, 1, 0.0, understood=False)
    if p != 2:
        return replace(unknown, stays="F.normalize with another length than the root of squares")
    over = tuple(sorted(axis % x.ndim for axis in ((dim,) if isinstance(dim, int) else dim)))
    channel = channel_axis(x)
    if channel is None:
        if x.ndim == 3 and over == (1,):
            reason = "F.normalize over axis 1, and no layer before it tells which axis holds channels"
            return replace(unknown, stays=reason)
        channel = 1 if 1 in over else -1
    n = math.prod(x.shape[axis] for axis in over)
    return NormLayer("rms", x.shape[channel], channel % x.ndim, eps**2 / n, over=over)


def gain_type(norm: NormSite) -> torch.dtype | None:
    """The type of a norm's gain; None if it has none."""
    if isinstance(norm.module, CalledFunction):
        weight = norm.module.given.get("weight")
        return weight.dtype if isinstance(weight, Tensor) else None
    return next((p.dtype for p in norm.module.parameters(recurse=False)), None)
