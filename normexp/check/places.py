"""The norms of a network and what enters one statistic of each."""

import math
from dataclasses import dataclass

from torch import Tensor, nn

from normexp.monitors.sites import Site, channel_dim, sites_of
from normexp.norms.layers import BATCH, INSTANCE, norm_layer

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
    def name(self) -> str:
        return type(self.module).__name__

    @property
    def tracked(self) -> bool:
        """Whether it keeps running statistics."""
        return getattr(self.module, "running_mean", None) is not None

    @property
    def follows_batches(self) -> bool:
        """Whether it normalizes with its batch in training mode. FrozenBatchNorm, for one, never does."""
        own = getattr(self.module, "batch_statistics", None)
        if own is not None:
            return bool(own) and getattr(self.module, "freeze_after", None) != 0
        return isinstance(self.module, BATCH) or (self.kind == "batch" and hasattr(self.module, "momentum"))

    def groups(self, x: Tensor) -> Tensor:
        """x as one row for each statistic, (statistics, values)."""
        x = x.detach()
        x = x if x.is_floating_point() and x.element_size() >= 4 else x.float()
        axis = channel_dim(self.module, x.ndim)
        if self.kind == "batch":
            return x.movedim(axis, 0).flatten(1)
        if self.kind == "instance":
            return x.movedim(axis, 1).flatten(2).flatten(0, 1) if x.ndim > 2 else x.reshape(-1, 1)
        if self.kind == "group":
            x = x.movedim(axis, 1)
            return x.reshape(len(x) * _groups(self.module), -1)
        shape = getattr(self.module, "normalized_shape", None)
        if shape is not None:
            size = math.prod(shape) if isinstance(shape, (tuple, list)) else int(shape)
            if axis == -1:
                return x.reshape(-1, size)
        if (
            getattr(self.module, "batch_statistics", None) is not None and axis == 1
        ):  # this project's, over (C, ...)
            return (
                x.movedim(1, -1).flatten(0, -2)
                if getattr(self.module, "per_position", False)
                else x.flatten(1)
            )
        return x.movedim(axis, -1).flatten(0, -2)


def _groups(module: nn.Module) -> int:
    return int(getattr(module, "num_groups", 0) or getattr(module, "groups", 1))


def norms_of(step: nn.Module) -> list[Place]:
    """The norms among the sites of a module, in forward order, each once."""
    paths = paths_of(step)
    seen: dict[nn.Module, Place] = {}
    for site in sites_of(step):
        if site.kind == "norm" and site.module not in seen and (place := _place(site, paths)) is not None:
            seen[site.module] = place
    return list(seen.values())


def paths_of(step: nn.Module) -> dict[nn.Module, str]:
    """Module -> its path, without the `model.` that wrapping a network adds."""
    from normexp.check.inputs import Step

    root = step.model if isinstance(step, Step) else step
    return {child: path for path, child in root.named_modules()}


def _place(site: Site, paths: dict[nn.Module, str]) -> Place | None:
    module = site.module
    is_a = norm_layer(module)
    if is_a is None or isinstance(module, nn.LocalResponseNorm):
        return None
    kind, centers = "sample", True
    if isinstance(is_a, str):
        eps = getattr(module, "eps", None)
    else:
        eps = is_a.eps
        kind, centers = {"layer": "sample", "rms": "sample"}.get(is_a.kind, is_a.kind), is_a.kind != "rms"
    if kind == "project":
        name = type(module).__name__
        centers = "RMS" not in name and "Scale" not in name
        kind = "batch" if module.batch_statistics else "group" if hasattr(module, "num_groups") else "sample"
        kind = "instance" if name == "InstanceNorm" else kind
        if name in ("Identity", "NoNorm", "Affine", "PointwiseNorm") or not is_a.eps:  # type: ignore[union-attr]
            kind = "none"
    if isinstance(module, INSTANCE):
        kind = "instance"
    return Place(paths.get(module, site.layer), module, kind, centers, float(eps or 0.0))
