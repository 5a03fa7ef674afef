"""What a normalization layer computes: its statistic, in axes and in words, its gain and its shift."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from normexp.format import pluralize


@dataclass(frozen=True)
class NormLayer:
    """A recognized normalization layer: y = (x - mean) / sqrt(var + eps) * gain + shift.

    Attributes:
        kind: over what a statistic runs. `batch`: every axis but the channel; `instance`: every axis but sample and
            channel; `group`: a group of channels of a sample and every axis after; `layer`: the channels of a sample or
            of a position; `rms`: as `layer`, with the mean square and no mean; `pointwise`: there is no statistic.
        num_features: channels; 0 if the layer does not say.
        channel_dim: 1 for (N, C, ...), -1 for (..., C).
        eps, correction, eps_position: as in `norms.base.Norm`.
        gain, shift: the factor and the summand of each channel; None if there is none.
        trained: whether gain and shift are trained.
        running: names of the running mean and variance; None if it keeps none.
        keep: the share of them that one batch leaves, `1 - momentum`; None if it changes, as of a plain average.
        averages: its running estimate is a plain average of all batches.
        frozen: normalizes with fixed statistics in training mode, too.
        activations: modules that the layer runs after it has normalized, as timm's layers do.
        groups: of channels, of the kind `group`.
        axes: of the kinds `layer` and `rms`: how many last axes enter one statistic.
        per_position: of the same kinds with channels at axis 1: over the channels of each position alone.
        positions: axes of positions that torch's InstanceNorm expects; it takes an input with one axis fewer for one
            sample without its batch axis. None for all others.
        exact: its outputs are those of this formula; False for norms of the project whose kind alone is said here.
        over: the axes of one statistic where they are chosen by number, as in F.normalize; else None.
        understood: whether more than the kind is known; False for one that keeps statistics and uses them otherwise.
        stays: why no other layer can take its place; empty if one can.
    """

    kind: str
    num_features: int
    channel_dim: int
    eps: float
    gain: Tensor | None = None
    shift: Tensor | None = None
    trained: bool = True
    running: tuple[str, str] | None = None
    keep: float | None = None
    averages: bool = False
    frozen: bool = False
    activations: tuple[nn.Module, ...] = ()
    groups: int = 1
    axes: int = 1
    per_position: bool = False
    correction: int = 0
    eps_position: str = "inside"
    positions: int | None = None
    exact: bool = True
    over: tuple[int, ...] | None = None
    understood: bool = True
    stays: str = ""

    def dims(self, ndim: int) -> tuple[int, ...]:
        """The axes of an input of `ndim` axes over which one statistic runs; of the kind `group` it takes
        1 / `groups` of axis 1. Empty for `pointwise`."""
        axes, channel = tuple(range(ndim)), self.channel_dim % ndim
        if self.over is not None or self.kind == "pointwise":
            return self.over or ()
        if self.unbatched(ndim):
            return axes[1:]
        if self.kind == "batch":
            return tuple(axis for axis in axes if axis != channel)
        if self.kind == "instance":
            return tuple(axis for axis in axes[1:] if axis != channel)
        if self.kind == "group" or (self.channel_dim == 1 and not self.per_position):
            return axes[1:]
        return (1,) if self.channel_dim == 1 else axes[-self.axes :]

    def unbatched(self, ndim: int) -> bool:
        """Whether the layer takes an input of `ndim` axes for one sample (C, L), and so its samples for channels."""
        return self.positions is not None and ndim == self.positions + 1

    def values(self, shape: Sequence[int]) -> int:
        """How many values of an input of this shape enter one statistic."""
        return math.prod(shape[axis] for axis in self.dims(len(shape))) // self.groups

    def description(self, shape: Sequence[int]) -> str:
        """Over what the layer normalizes an input of this shape: `one statistic for each sample and position, over 64
        channels (axis 2): 64 values`."""
        if self.kind == "pointwise":
            return "no statistic: each output depends on its own input alone"
        ndim, dims, channel = len(shape), self.dims(len(shape)), self.channel_dim % len(shape)
        if self.unbatched(ndim):
            return (
                f"one statistic for each of {shape[0]} along axis 0, which it takes for channels of one sample, over "
                f"{_axes(dims)}: {pluralize(self.values(shape), 'value')}"
            )
        last = dims if self.axes > 1 else (channel,)  # axes that hold channels
        count = math.prod(shape[axis] for axis in last)
        channels, grouped = (
            f"{pluralize(n, 'channel')} ({_axes(last)})" for n in (count, count // self.groups)
        )
        kept = [axis for axis in range(ndim) if axis not in dims and axis not in last]
        names = [name for name, of_each in (("sample", 0 in kept), ("position", any(kept))) if of_each]
        where = f" ({_axes(kept)})" if any(kept) else ""
        each = [f"each {' and '.join(names)}{where}"] if kept else []
        if self.kind == "group":
            each.append(f"each of {pluralize(self.groups, 'group')} of {grouped}")
        elif not set(last) & set(dims):
            each.append(f"each of {channels}")
        over = [pluralize(shape[0], "sample")] if 0 in dims else []
        if set(last) & set(dims):
            over.append("the channels of a group" if self.kind == "group" else channels)
        if rest := [axis for axis in dims if axis and axis not in last]:
            over.append(f"{pluralize(math.prod(shape[axis] for axis in rest), 'position')} ({_axes(rest)})")
        each, over = (" and ".join(parts) for parts in (each, over))
        return f"one statistic for {each}, over {over}: {pluralize(self.values(shape), 'value')}"

    @property
    def formula(self) -> tuple[Any, ...]:
        """Equal for two layers that compute the same from the same gain, shift and running statistics."""
        whole = self.channel_dim == 1 and not self.per_position
        kind = "group" if self.kind == "layer" and whole else self.kind  # of one group: over (C, H, W)
        axes = (self.channel_dim, self.groups, self.axes, self.per_position)
        return (kind, *axes, self.eps, self.correction, self.eps_position, self.frozen)


def _axes(axes: Sequence[int]) -> str:
    return f"ax{'i' if len(axes) == 1 else 'e'}s {', '.join(map(str, axes))}"
