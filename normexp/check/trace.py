"""The norms of a network, and one training pass, watched: what every norm gets, and which parameters get a gradient."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.inputs import root_of
from normexp.models.sites import sites_of
from normexp.monitors.guard import gradients_or_none, step_output
from normexp.monitors.sites import channel_dim, first_tensor
from normexp.norms.layers import BATCH, NormLayer, norm_layer

RUNNING = ("running_mean", "running_var", "num_batches_tracked")
TINY = 1e-30  # stands for a variance of 0, where a ratio or a logarithm is taken


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
        return None if count is None or self.kind == "instance" else int(count)  # InstanceNorm never counts

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
    if isinstance(layer, str):  # one that computes something of its own
        eps = getattr(module, "eps", None)
        return Place(path, module, "sample", True, eps if isinstance(eps, float) else 0.0)
    kinds = {"layer": "sample", "rms": "sample", "pointwise": "none"}
    return Place(path, module, kinds.get(layer.kind, layer.kind), layer.kind != "rms", layer.eps)


@dataclass
class Call:
    """One call of a norm in the training pass.

    Attributes:
        mean, var: of each statistic (correction 0), before the layer adds eps, (statistics,).
        values: how many values enter one statistic.
        largest: largest absolute value that arrives.
        x: what arrived; shares its memory with the pass.
        masked: whether the layer was told what is padding.
        training: the mode of the layer in the pass.
        learns: whether gradients were recorded.
    """

    place: Place
    mean: Tensor
    var: Tensor
    values: int
    largest: float
    x: Tensor
    masked: bool
    training: bool
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
        loss_by: how the loss was computed, in words.
        without_gradient: names of trained parameters that get no gradient.
        inside: path of the norm in which the pass failed.
    """

    loss: float = float("nan")
    loss_by: str = ""
    calls: list[Call] = field(default_factory=list)
    without_gradient: set[str] = field(default_factory=set)
    error: Exception | None = None
    inside: str = ""


def trace(step: nn.Module, batch: Any, places: list[Place]) -> Trace:
    """Run one training pass, forward and backward, on the module as it is: call it in `Network.quiet`.

    An error of the pass is part of the result, with the norm in which it came.
    """
    seen, of_module = Trace(), {place.module: place for place in places}

    def enter(module: nn.Module, args: tuple, kwargs: dict) -> None:
        x, seen.inside = first_tensor(args, kwargs), of_module[module].path
        if x is not None and x.numel() and of_module[module].kind != "none":
            seen.calls.append(measured(of_module[module], x, (*args, *kwargs.values())))

    def leave(*_: Any) -> None:
        seen.inside = ""

    handles = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in of_module]
    handles += [module.register_forward_hook(leave) for module in of_module]
    try:
        loss = step_output(step, copied(batch))["loss"]
        seen.loss = float(loss.detach())
        for handle in handles:
            handle.remove()  # a checkpointed part is computed again, and not seen again
        trained = {name: p for name, p in root_of(step).named_parameters() if p.requires_grad}
        some = loss.requires_grad and trained
        gradients = gradients_or_none(loss, list(trained.values())) if some else [None] * len(trained)
        seen.without_gradient = {name for name, g in zip(trained, gradients, strict=True) if g is None}
    except Exception as error:  # any error of a user's network is what we report
        seen.error = error
    finally:
        for handle in handles:
            handle.remove()
    return seen


def measured(place: Place, x: Tensor, given: tuple) -> Call:
    """What a call of a norm with x shows."""
    rows = place.groups(x)  # without gradients
    mean, values = rows.mean(1), rows.shape[1]
    return Call(
        place, mean, rows.var(1, correction=0) if values > 1 else torch.zeros_like(mean), values,
        largest=float(x.detach().abs().amax()), x=x.detach(), training=place.module.training,
        masked=any(isinstance(mask, Tensor) and mask.dtype == torch.bool for mask in given),
        learns=torch.is_grad_enabled(),
    )  # fmt: skip


def copied(batch: Any) -> Any:
    """A batch that a network may write into."""
    return apply_to_collection(batch, Tensor, torch.clone)
