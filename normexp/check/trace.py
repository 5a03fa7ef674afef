"""The norms of a network, and one training pass, watched: what every norm, activation and linear map gets, gives, and
gets back as a gradient."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.called import CalledNorm, Functions, Owner
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
    def seen(self) -> int | None:
        """Batches that its running statistics have seen; None if it does not count them."""
        count = getattr(self.module, "num_batches_tracked", None)
        return None if count is None else int(count)

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
        declared = getattr(self.module, "batch_statistics", None)
        if declared is not None:
            return bool(declared) and getattr(self.module, "freeze_after", None) != 0
        return isinstance(self.module, BATCH) or (self.kind == "batch" and hasattr(self.module, "momentum"))

    def groups(self, x: Tensor) -> Tensor:
        """x as one row for each statistic, (statistics, values)."""
        module, axis = self.module, channel_dim(self.module, x.ndim)
        x = x.detach()
        x = x if x.is_floating_point() and x.element_size() >= 4 else x.float()
        if isinstance(module, CalledNorm) and module.axes:
            last = tuple(range(-len(module.axes), 0))
            return x.movedim(module.axes, last).flatten(-len(last)).flatten(0, -2)
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
    layers = {module: norm_layer(module) for module in norms if not isinstance(module, nn.LocalResponseNorm)}
    return [_place(paths[module], module, layer) for module, layer in layers.items() if layer is not None]


def _place(path: str, module: nn.Module, layer: NormLayer | str) -> Place:
    name, special = type(module).__name__, isinstance(layer, str)  # one that computes something of its own
    kind, eps = ("layer", getattr(module, "eps", None)) if special else (layer.kind, layer.eps)
    centers = not ("RMS" in name or "Scale" in name) if kind == "project" else kind != "rms"
    if isinstance(module, INSTANCE) or name == "InstanceNorm":
        kind = "instance"
    elif kind == "project":
        plain = name in ("Identity", "NoNorm", "Affine", "PointwiseNorm") or not eps
        parted = "group" if hasattr(module, "num_groups") else "sample"
        kind = "none" if plain else "batch" if module.batch_statistics else parted
    return Place(path, module, "sample" if kind in ("layer", "rms") else kind, centers, float(eps or 0.0))


KINDS = ("norm", "activation", "linear")
TINY = 1e-30  # stands for a variance of 0, where a ratio or a logarithm is taken
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
        after: the norm that gave x, with nothing between; None if another layer or function did.
        maker: the layer that gave x, maybe as a view of its output.
        learns: whether gradients were recorded.
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
    after: Place | None
    maker: nn.Module | None
    learns: bool

    @property
    def spread(self) -> Tensor:
        """What eps is added to: the variance, or for layers that do not center the mean square, (statistics,)."""
        return self.var if self.place.centers else self.var + self.mean.square()

    @property
    def crosses_positions(self) -> bool:
        """Whether a statistic may run over the positions of a sequence or an image."""
        return self.place.kind in ("batch", "instance", "group") and self.x.dim() > 2


@dataclass
class Trace:
    """What one training pass showed.

    Attributes:
        units: path of an activation right behind a norm -> (that norm, share of units that are flat everywhere, of
            outputs that are saturated).
        layers: path -> what a norm, activation or linear map did, in forward order.
        cancelled: path of a linear map with a bias right before a norm -> |sum of dL/dy| / sum of |dL/dy|, its largest
            channel; 0 up to rounding if the norm subtracts whatever the bias adds.
        runs: calls of the whole network.
        called: norms that are called as functions.
        recomputed: paths of norms whose running statistics moved again while the gradient was computed.
        without_gradient: names of trained parameters that get no gradient.
        inside: path of the norm in which the pass failed.
    """

    loss: float = float("nan")
    calls: list[Call] = field(default_factory=list)
    units: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    layers: dict[str, Layer] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)
    runs: int = 0
    called: list[Place] = field(default_factory=list)
    recomputed: list[str] = field(default_factory=list)
    without_gradient: set[str] = field(default_factory=set)
    error: Exception | None = None
    inside: str = ""


class _Watch:
    """The hooks of one pass."""

    def __init__(self, step: nn.Module, places: list[Place]) -> None:
        self.trace, self.root = Trace(), root_of(step)
        self.places = {place.module: place for place in places}
        self.paths = {module: path for path, module in self.root.named_modules()}
        self.stack: list[Owner] = []  # the open calls of layers
        self.functions: dict[str, Place] = {}
        self.again: dict[Place, int] | None = None  # of running means, while the gradient is computed
        sites = sites_of(step)
        self.kinds = {site.module: site.kind for site in sites if site.kind in KINDS}
        # Kept so that their memory is not used again, and an address names its maker.
        self.outputs: list[Tensor] = []
        self.maker: dict[int, tuple[nn.Module, int]] = {}
        self.before_norm: set[nn.Module | None] = set()
        self.handles: list[Any] = []
        for module in self.paths:
            self.handles.append(module.register_forward_pre_hook(self.enter, with_kwargs=True))
            self.handles.append(module.register_forward_hook(self.leave))
        self.handles.append(listen(step, sites, self.called))

    def enter(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        if self.again is not None:  # a checkpointed part is computed again
            if module in self.places and self.places[module].tracked:
                self.again.setdefault(self.places[module], module.running_mean.clone())
            return
        self.trace.runs += not self.stack
        self.stack.append(Owner(module, args, kwargs))
        x = first_tensor(args, kwargs)
        if module not in self.kinds or x is None or not x.is_floating_point():
            return
        path, kind = self.paths[module], self.kinds[module]
        if module in self.places:
            self.trace.inside = path
            self.norm(self.places[module], x, (*args, *kwargs.values()))
        elif kind == "activation":
            self.unit(path, module, x)
        self.trace.layers.setdefault(path, Layer(path, kind))  # in forward order

    def leave(self, module: nn.Module, args: tuple, y: Any) -> None:
        if self.again is not None:
            return
        self.stack.pop()
        if not isinstance(y, Tensor):
            return
        alone = module in self.kinds or next(module.children(), None) is None
        if torch.is_grad_enabled() and alone:
            self.outputs.append(y)
            self.maker[y.untyped_storage().data_ptr()] = module, y._version
        self.trace.inside = "" if module in self.places else self.trace.inside
        if module not in self.kinds or not y.is_floating_point():
            return
        path, linear = self.paths[module], self.kinds[module] == "linear"
        layer = self.trace.layers.setdefault(path, Layer(path, self.kinds[module]))
        if layer.output_rms is None:
            layer.output_rms = rms(y)
            if y.requires_grad and not linear:
                y.register_hook(lambda g: setattr(layer, "gradient", size(g)))
        if y.requires_grad and linear and getattr(module, "bias", None) is not None:
            y.register_hook(partial(self.cancel, module))

    def norm(self, place: Place, x: Tensor, given: tuple) -> None:
        if place.kind == "none" or x.numel() == 0:
            return
        rows = place.groups(x)  # without gradients
        mean, values = rows.mean(1), rows.shape[1]
        var = rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean)
        masked = any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in given)
        maker, version = self.maker.get(x.untyped_storage().data_ptr(), (None, -1))
        call = Call(
            place, self.trace.runs, mean, var, values, float(x.detach().abs().amax()), x.detach(), masked,
            training=place.module.training, maker=maker, learns=torch.is_grad_enabled(),
            after=self.places.get(maker) if version == x._version else None,
        )  # fmt: skip
        self.trace.calls.append(call)
        self.before_norm.add(maker)

    def function(
        self, x: Tensor, name: str, kind: str, axes: tuple[int, ...], groups: int, centers: bool, eps: float
    ) -> None:
        """A norm that was called as a function. One of weights, as in weight standardization, is none of those."""
        owner = self.stack[-1]
        own = {p.numel() for p in owner.module.parameters(recurse=False)}
        if x.dim() < 2 or x.numel() in own or "torch.nn.utils" in type(owner.module).__module__:
            return
        path = f"{self.paths[owner.module]}.{name}()".lstrip(".")
        if path not in self.functions:
            module = CalledNorm(name, kind, axes, owner, groups=groups).train(owner.module.training)
            self.functions[path] = Place(path, module, kind, centers, eps)
            self.trace.called.append(self.functions[path])
        if self.functions[path].module.axes == axes:
            with unheard():
                self.norm(self.functions[path], x, ())
            self.trace.layers.setdefault(path, Layer(path, "norm"))

    def listens(self) -> bool:
        """Whether a function is called in a layer's forward, and in none of a norm."""
        return bool(self.stack) and not any(owner.module in self.places for owner in self.stack)

    def unit(self, path: str, activation: nn.Module, x: Tensor) -> None:
        behind = self.places.get(self.maker.get(x.untyped_storage().data_ptr(), (None, 0))[0])
        if behind is None or path in self.trace.units:
            return
        axis, part, saturated = channel_dim(behind.module, x.ndim), few(x), 0.0
        keep = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)  # none of a checkpoint's
        with unheard(), keep:
            rows = to_rows(derivative(activation, part), axis)
            limits = bounds(activation)
            if limits and not (limits[0] == 0 and limits[1] > 1):  # the lower end of ReLU6 is that of ReLU
                with torch.no_grad():
                    y = activation.forward(part.detach().clone())
                saturated = float(saturated_fraction(to_rows(y, axis), *limits))
        self.trace.units[path] = (behind.path, float(flat_fractions(rows)["dead_fraction"]), saturated)

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
        names = {name: p for name, p in self.root.named_parameters() if p.requires_grad}
        gradients: list[Tensor | None] = [None] * len(names)
        if loss.requires_grad and names:
            self.again = {}
            gradients = gradients_of(loss, list(names.values()))
            before = self.again.items()
            self.trace.recomputed = [p.path for p, mean in before if not mean.equal(p.module.running_mean)]
        for (name, _), gradient in zip(names.items(), gradients, strict=True):
            if gradient is None:
                self.trace.without_gradient.add(name)
                continue
            layer = self.trace.layers.get(name.removesuffix(".weight"))
            if layer is not None and layer.kind == "linear":
                layer.gradient = size(gradient)


def gradients_of(loss: Tensor, parameters: list[nn.Parameter]) -> list[Tensor | None]:
    """The gradients of the parameters; None where the loss does not depend on one. `.grad` stays as it is."""
    try:
        return list(torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True))
    except RuntimeError as error:  # reentrant checkpoints know only `backward`
        if "use_reentrant" not in str(error) or any(p._post_accumulate_grad_hooks for p in parameters):
            raise
    before = [p.grad for p in parameters]
    try:
        for p in parameters:
            p.grad = None
        loss.backward()
        return [p.grad for p in parameters]
    finally:
        for p, gradient in zip(parameters, before, strict=True):
            p.grad = gradient


def size(x: Tensor) -> float:
    """The L2 norm of a tensor."""
    return float(gradient_norms([x])[0])


def few(x: Tensor) -> Tensor:
    """The first samples of a large tensor."""
    return x if x.numel() <= MANY else x[: max(1, MANY * len(x) // x.numel())]


def rms(x: Tensor) -> float:
    """Root mean square of a tensor, of its first samples if it is large."""
    part = few(x.detach())
    return size(part) / max(part.numel(), 1) ** 0.5


def trace(step: nn.Module, batch: Any, places: list[Place]) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `untouched`.

    An error of the pass is part of the result, with the norm in which it came.
    """
    watch = _Watch(step, places)
    try:
        with Functions(watch.function, watch.listens):
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
