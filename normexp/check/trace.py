"""The norms of a network, and one training pass, watched: what every norm, activation and linear map gets, gives, and
gets back as a gradient."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.inputs import root_of
from normexp.check.result import Layer
from normexp.models.sites import sites_of
from normexp.monitors.activations import bounds, derivative, flat_fractions, saturated_fraction
from normexp.monitors.gradients import norms_of as gradient_norms
from normexp.monitors.guard import step_output
from normexp.monitors.sites import CalledFunction, Site, channel_dim, first_tensor, listen, to_rows, unheard
from normexp.norms.layers import BATCH, INSTANCE, NormLayer, norm_layer

RUNNING = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class Place:
    """A norm of the network.

    Attributes:
        path: its dotted path, as in `get_submodule`.
        kind: over what its statistics run: batch (every axis but the channel), instance, group, or sample (the last
            axes of each sample or token); none for layers that take no statistic.
        centers: whether it subtracts a mean.
    """

    path: str
    module: nn.Module
    kind: str
    centers: bool
    eps: float

    @property
    def tracked(self) -> bool:
        """Whether it keeps running statistics."""
        return getattr(self.module, "running_mean", None) is not None

    @property
    def seen(self) -> int:
        """Batches that its running statistics have seen."""
        return int(getattr(self.module, "num_batches_tracked", None) or 0)

    @property
    def fresh(self) -> bool:
        """Whether its running statistics have seen no batch."""
        return getattr(self.module, "num_batches_tracked", None) is not None and not self.seen

    @property
    def keep(self) -> float | None:
        """The share of a running statistic that one batch leaves; None if it is a plain average, or unknown."""
        if (keep := getattr(self.module, "ema_keep", None)) is not None:
            return float(keep)
        momentum = getattr(self.module, "momentum", None)
        return None if momentum is None else 1 - float(momentum)

    @property
    def synced(self) -> bool:
        """Whether statistics run over all processes."""
        return "Sync" in type(self.module).__name__

    @property
    def virtual_batch(self) -> int | None:
        """Samples of a part of the batch that has statistics of its own, as in ghost BatchNorm."""
        return getattr(self.module, "virtual_batch_size", None)

    @property
    def follows_batches(self) -> bool:
        """Whether it normalizes with its batch in training mode. FrozenBatchNorm, for one, never does."""
        own = getattr(self.module, "batch_statistics", None)
        if own is not None:
            return bool(own) and getattr(self.module, "freeze_after", None) != 0
        return isinstance(self.module, BATCH) or (self.kind == "batch" and hasattr(self.module, "momentum"))

    def groups(self, x: Tensor) -> Tensor:
        """x as one row for each statistic, (statistics, values)."""
        module, axis = self.module, channel_dim(self.module, x.ndim)
        x = x.detach()
        x = x if x.is_floating_point() and x.element_size() >= 4 else x.float()
        if self.kind == "batch":
            return x.movedim(axis, 0).flatten(1)
        if self.kind == "instance":
            return x.movedim(axis, 1).flatten(2).flatten(0, 1) if x.ndim > 2 else x.reshape(-1, 1)
        if self.kind == "group":
            return x.movedim(axis, 1).reshape(len(x) * getattr(module, "num_groups", 1), -1)
        if hasattr(module, "batch_statistics") and axis == 1 and not getattr(module, "per_position", False):
            return x.flatten(1)  # this project's, over (C, ...)
        shape = getattr(module, "normalized_shape", x.shape[axis])
        return x.movedim(axis, -1).reshape(-1, shape if isinstance(shape, int) else math.prod(shape))


def norms_of(step: nn.Module) -> list[Place]:
    """The norms among the sites of a module, in forward order, each once."""
    paths = {child: path for path, child in root_of(step).named_modules()}
    norms = dict.fromkeys(site.module for site in sites_of(step) if site.kind == "norm")
    found = {module: norm_layer(module) for module in norms if not isinstance(module, nn.LocalResponseNorm)}
    return [_place(paths[module], module, layer) for module, layer in found.items() if layer is not None]


def _place(path: str, module: nn.Module, layer: NormLayer | str) -> Place:
    if isinstance(layer, str):  # recognized, and computes something of its own
        kind, eps = "layer", float(getattr(module, "eps", None) or 0.0)
    else:
        kind, eps = layer.kind, float(layer.eps or 0.0)
    name, centers = type(module).__name__, kind != "rms"
    if kind == "project":
        centers = "RMS" not in name and "Scale" not in name
        kind = "batch" if module.batch_statistics else "group" if hasattr(module, "num_groups") else "sample"
        if name in ("Identity", "NoNorm", "Affine", "PointwiseNorm") or not eps:
            kind = "none"
    if isinstance(module, INSTANCE) or name == "InstanceNorm":
        kind = "instance"
    return Place(path, module, "sample" if kind in ("layer", "rms") else kind, centers, eps)


KINDS = ("norm", "activation", "linear")
MANY = 2**22  # values; a larger activation is measured on as many of its first samples as stay below


@dataclass
class Call:
    """One call of a norm in the training pass.

    Attributes:
        run: which call of the whole network it belongs to.
        mean, var: of each statistic (correction 0), before the layer adds eps, (statistics,).
        values: how many values enter one statistic.
        largest: largest absolute value that arrives.
        x: what arrived; shares its memory with the pass.
        masked: whether the layer was told what is padding.
        training: the mode of the layer in the pass.
    """

    place: Place
    run: int
    mean: Tensor
    var: Tensor
    values: int
    largest: float
    x: Tensor
    masked: bool
    training: bool

    @property
    def spread(self) -> Tensor:
        """What eps is added to: the variance, or for layers that do not center the mean square, (statistics,)."""
        return self.var if self.place.centers else self.var + self.mean.square()

    @property
    def crosses_positions(self) -> bool:
        """Whether a statistic may run over the positions of a sequence or an image."""
        return self.place.kind in ("batch", "instance", "group") and self.x.dim() > 2


@dataclass
class Unit:
    """An activation right behind a norm: the share of units that are flat everywhere, and of saturated outputs."""

    path: str
    behind: str
    dead: float
    saturated: float | None


@dataclass
class Trace:
    """What one training pass showed.

    Attributes:
        layers: path -> what a norm, activation or linear map did, in forward order.
        cancelled: path of a linear map with a bias right before a norm -> |sum of dL/dy| / sum of |dL/dy|, its largest
            channel; 0 up to rounding if the norm subtracts whatever the bias adds.
        sensitivity: path of a linear map -> |dL/dW| |W|, which does not change if the weights are rescaled.
        inside: path of the norm in which the pass failed.
    """

    loss: float = float("nan")
    calls: list[Call] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    layers: dict[str, Layer] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)
    sensitivity: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    error: Exception | None = None
    inside: str = ""


class _Watch:
    """The hooks of one pass."""

    def __init__(self, step: nn.Module, places: list[Place]) -> None:
        self.step, self.trace, self.depth = step, Trace(), 0
        self.places = {place.module: place for place in places}
        self.paths = {module: path for path, module in root_of(step).named_modules()}
        self.sites = sites_of(step)
        self.kinds = {site.module: site.kind for site in self.sites if site.kind in KINDS}
        self.kept: list[Tensor] = []  # keeps memory from being used again, so that an address names its maker
        self.maker: dict[int, nn.Module] = {}
        self.before_norm: set[nn.Module] = set()
        self.handles: list[Any] = []

    def attach(self) -> None:
        for module in self.paths:
            self.handles.append(module.register_forward_pre_hook(self.enter, with_kwargs=True))
            self.handles.append(module.register_forward_hook(self.leave))
        self.handles.append(listen(self.step, self.sites, self.called))

    def layer(self, module: nn.Module) -> Layer:
        path = self.paths[module]
        return self.trace.layers.setdefault(path, Layer(path, self.kinds[module]))

    def enter(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        self.trace.runs += self.depth == 0
        self.depth += 1
        x = first_tensor(args, kwargs)
        if module not in self.kinds or x is None or not x.is_floating_point():
            return
        if module in self.places:
            self.trace.inside = self.paths[module]
            with torch.no_grad():
                self.norm(self.places[module], x, (*args, *kwargs.values()))
        elif self.kinds[module] == "activation":
            self.unit(self.paths[module], module, x)
        self.layer(module)  # in forward order

    def leave(self, module: nn.Module, args: tuple, y: Any) -> None:
        self.depth -= 1
        if not isinstance(y, Tensor):
            return
        if torch.is_grad_enabled() and (module in self.places or next(module.children(), None) is None):
            self.kept.append(y)
            self.maker[y.untyped_storage().data_ptr()] = module
        self.trace.inside = "" if module in self.places else self.trace.inside
        if module not in self.kinds or not y.is_floating_point():
            return
        layer, linear = self.layer(module), self.kinds[module] == "linear"
        if layer.output_rms is None:
            layer.output_rms = rms(y)
            if y.requires_grad and not linear:
                y.register_hook(lambda g: setattr(layer, "gradient", size(g)))
        if y.requires_grad and linear and getattr(module, "bias", None) is not None:
            y.register_hook(partial(self.cancel, module))

    def norm(self, place: Place, x: Tensor, given: tuple) -> None:
        if place.kind == "none" or x.numel() == 0:
            return
        rows = place.groups(x)
        mean, values = rows.mean(1), rows.shape[1]
        var = rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean)
        masked = any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in given)
        most, training = float(x.abs().amax()), place.module.training
        call = Call(place, self.trace.runs, mean, var, values, most, x.detach(), masked, training)
        self.trace.calls.append(call)
        self.before_norm |= {maker for maker in [self.maker_of(x)] if maker is not None}

    def maker_of(self, x: Tensor) -> nn.Module | None:
        """The layer that gave x."""
        return self.maker.get(x.untyped_storage().data_ptr())

    def unit(self, path: str, activation: nn.Module, x: Tensor) -> None:
        behind = self.places.get(self.maker_of(x))
        if behind is None or any(unit.path == path for unit in self.trace.units):
            return
        axis, part, saturated = channel_dim(behind.module, x.ndim), few(x), None
        with unheard():
            rows = to_rows(derivative(activation, part), axis)
            limits = bounds(activation)
            if limits and not (limits[0] == 0 and limits[1] > 1):  # the lower end of ReLU6 is that of ReLU
                with torch.no_grad():
                    y = activation.forward(part.detach().clone())
                saturated = float(saturated_fraction(to_rows(y, axis), *limits))
        dead = float(flat_fractions(rows)["dead_fraction"])
        self.trace.units.append(Unit(path, behind.path, dead, saturated))

    def called(self, site: Site, x: Tensor) -> None:
        if isinstance(site.module, CalledFunction):
            self.unit(site.layer, site.module, x)

    def cancel(self, module: nn.Module, gradient: Tensor) -> None:
        if module in self.before_norm:
            rows = to_rows(gradient, channel_dim(module, gradient.ndim))
            total = rows.abs().sum(0)
            share = rows.sum(0).abs() / total.clamp_min(torch.finfo(rows.dtype).tiny)
            self.trace.cancelled[self.paths[module]] = float(share.amax())  # 0 where no gradient comes

    def backward(self, loss: Tensor) -> None:
        weights = {
            module: module.weight
            for module in self.paths
            if isinstance(getattr(module, "weight", None), nn.Parameter)
            and module.weight.requires_grad
            and module not in self.places
        }
        if not loss.requires_grad or not weights:
            return
        found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        gradients = dict(zip(weights, found, strict=True))
        modules = {self.paths[module]: module for module in weights}
        for path, layer in self.trace.layers.items():
            if layer.kind == "linear" and (g := gradients.get(modules.get(path))) is not None:
                layer.gradient = size(g)
                self.trace.sensitivity[path] = layer.gradient * size(modules[path].weight.detach())


def size(x: Tensor) -> float:
    """The L2 norm of a tensor."""
    return float(gradient_norms([x])[0])


def few(x: Tensor) -> Tensor:
    """The first samples of a large tensor."""
    return x if x.numel() <= MANY else x[: max(1, MANY * len(x) // x.numel())]


def rms(x: Tensor) -> float:
    """Root mean square of a tensor, of its first samples if it is large."""
    part = few(x.detach()).float()
    return float(torch.linalg.vector_norm(part) / max(part.numel(), 1) ** 0.5)


def trace(step: nn.Module, batch: Any, places: list[Place]) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `untouched`.

    An error of the pass is part of the result, with the norm in which it came.
    """
    watch = _Watch(step, places)
    try:
        watch.attach()
        loss = step_output(step, copied(batch))["loss"]
        watch.trace.loss = float(loss.detach())
        watch.backward(loss)
    except Exception as error:  # any error of a user's network is what we report
        watch.trace.error = error
    finally:
        for handle in watch.handles:
            handle.remove()
    return watch.trace


def copied(batch: Any) -> Any:
    """A batch that a network may write into."""
    return apply_to_collection(batch, Tensor, torch.clone)
