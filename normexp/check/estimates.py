"""Running statistics beside those that batches give, and the losses with both."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normexp.check.norm_sites import NormSite
from normexp.check.trace import Trace, trace
from normexp.monitors.batches import Batches
from normexp.monitors.guard import loss_of


class Moments(NamedTuple):
    """Mean and variance of each channel at a call of a norm, (C,), and over how many values."""

    mean: Tensor
    var: Tensor
    values: int


@dataclass
class Modes:
    """Losses of the held-out batch with dropout off, and what arrives at each norm with running statistics.

    Attributes:
        running, batch: loss with the running statistics, and with the batch's own.
        distances: path -> distance of the held-out batch's mean or deviation from the running one, in deviations.
        moments: path -> those of each call in the training batch.
    """

    running: float
    batch: float
    distances: dict[str, float]
    moments: dict[str, list[Moments]]


def modes(step: nn.Module, batches: Batches, tracked: list[NormSite]) -> Modes:
    """See `Modes`. Call it on a copy in eval mode."""
    running, distances = float(loss_of(step, batches.held_out)), {}
    stored = {norm.path: [part.clone() for part in norm.running] for norm in tracked}
    passes = [own_statistics(step, batch, tracked) for batch in (batches.training, batches.held_out)]
    for passed, _ in passes:
        if passed.error is not None:
            raise passed.error
    for path, calls in passes[1][1].items():
        mean, var = stored[path]
        off = torch.stack([calls[-1].mean - mean, calls[-1].var.sqrt() - var.sqrt()]).norm(dim=1)
        distances[path] = float(off.amax() / var.sqrt().norm())
    return Modes(running, passes[1][0].loss, distances, passes[0][1])


def own_statistics(
    step: nn.Module, batch: Any, tracked: list[NormSite]
) -> tuple[Trace, dict[str, list[Moments]]]:
    """A pass in which these norms take the batch's statistics, and path -> those of each call; not those of each
    sample, as InstanceNorm's. Call it on a copy in eval mode."""
    for norm in tracked:
        norm.module.train()
    passed, found = trace(step, batch, tracked), defaultdict(list)
    step.eval()
    for call in passed.calls:
        if call.mean.shape == call.norm.running[0].shape:
            found[call.norm.path].append(Moments(call.mean, call.var, call.values))
    return passed, found


def estimate_anew(step: nn.Module, others: list[Any], tracked: list[NormSite]) -> None:
    """Set running statistics to those that batches give, each with the same weight and variances of correction 1, as
    `update_bn` estimates them. Call it on a copy in eval mode."""
    found: dict[str, list[Moments]] = defaultdict(list)
    for batch in others:
        for path, calls in own_statistics(step, batch, tracked)[1].items():
            found[path] += calls
    for norm in tracked:
        if calls := found[norm.path]:
            mean, var = norm.running
            mean.copy_(torch.stack([call.mean for call in calls]).mean(0))
            stored = [call.var * call.values / max(call.values - 1, 1) for call in calls]
            var.copy_(torch.stack(stored).mean(0))
