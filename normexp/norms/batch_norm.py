"""BatchNorm: the statistics of each channel over the batch, and an estimate of them over the population."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from normexp.format import pluralize, require_at_least, require_choice
from normexp.norms import functional, kernels
from normexp.norms.base import (
    DEFAULT_EPS,
    Affine,
    Deviation,
    EpsPosition,
    Norm,
    check_kept,
    evaluation_mode,
)

PopulationStatistics = Literal["ema", "cumulative", "precise"]
Moments = tuple[int, Tensor, Tensor]  # count, mean and variance (correction 0) of each channel


def recompute_population_statistics(model: nn.Module, batches: Iterable, *, training: bool = True) -> None:
    """Set `running_mean` and `running_var` of every norm of `model` to the mean and variance of its inputs.

    `batches` yields inputs, or tuples that begin with them. Every sample has the same weight, however it is batched:
    batch statistics (n_i, mean_i, var_i) merge into mean = sum n_i mean_i / n and
    var = sum n_i (var_i + (mean_i - mean)^2) / (n - running_correction). Meanwhile the norms normalize with the batch's
    statistics; the rest of the model is in eval mode. Modes, other buffers and random streams are put back. If a batch
    fails, everything is put back.
    Source: Wu, Johnson 2021, Rethinking "Batch" in BatchNorm.

    Args:
        training: the norms run as in training, with whatever noise or virtual batches that brings. Otherwise they run
            as in eval mode, with the moments of each batch in place of the running ones: see `followers`, torch's
            layers among them.
    """
    if training:
        known = [m for m in model.modules() if hasattr(m, "channel_dim") or isinstance(m, _BatchNorm)]
        layers = [m for m in known if isinstance(getattr(m, "running_mean", None), Tensor)]
    else:
        layers = followers(model)
    merged: dict[nn.Module, Moments] = {}

    def measure(layer: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        x = inputs[0] if inputs else next(iter(named.values()))
        x = x if getattr(layer, "channel_dim", 1) == 1 else x.flatten(0, -2)
        x, dims = functional.at_least_float32(x), [0, *range(2, x.dim())]
        moments = functional.moments(x, dims, 0, getattr(layer, "deviation", "l2"))
        mean, var = (m.flatten() for m in moments)
        of_batch = x.numel() // len(mean), mean, var
        merged[layer] = merge(merged.get(layer), of_batch)
        if not training:
            store(layer, of_batch)

    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    hooks = [layer.register_forward_pre_hook(measure, with_kwargs=True) for layer in layers]
    gpus = {parameter.device for parameter in model.parameters() if parameter.is_cuda}
    try:
        with evaluation_mode(model), torch.no_grad(), torch.random.fork_rng(gpus):
            for layer in layers if training else ():
                layer.train()
            for batch in batches:
                model(batch[0] if isinstance(batch, tuple | list) else batch)
    finally:
        for hook in hooks:
            hook.remove()
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    for layer, moments in merged.items():
        store(layer, moments)


def followers(model: nn.Module) -> list[nn.Module]:
    """The norms that normalize with the batch while `model` trains and with `running_mean` and `running_var` in eval
    mode: those of this package and torch's BatchNorm. A layer that is kept in eval mode while the rest trains, or that
    `freeze_after` has frozen, is none. A model that is in eval mode as a whole does not tell, and all count."""
    found = [
        layer
        for layer in model.modules()
        if (isinstance(layer, _BatchNorm) or getattr(layer, "batch_statistics", False))
        and isinstance(getattr(layer, "running_mean", None), Tensor)
    ]
    if not any(layer.training for layer in model.modules()):
        return found
    return [layer for layer in found if layer.training and getattr(layer, "uses_batch", lambda: True)()]


def store(layer: Any, moments: Moments) -> None:
    """Make moments the running ones of a layer."""
    n, mean, var = moments
    layer.running_mean.copy_(mean)
    layer.running_var.copy_(var * (n / max(n - getattr(layer, "running_correction", 1), 1)))


def merge(a: Moments | None, b: Moments) -> Moments:
    """Count, mean and variance (correction 0) of the union of two sets of values."""
    if a is None:
        return b
    (n, mean, var), (m, other_mean, other_var) = a, b
    part, shift = m / (n + m), other_mean - mean
    return (
        n + m,
        mean + part * shift,
        (1 - part) * var + part * other_var + part * (1 - part) * shift.square(),
    )


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over every axis but `channel_dim`.

    While training, mean and var come from the batch, and the running estimate moves toward them:
        running = ema_keep * running + (1 - ema_keep) * batch.
    In eval mode mean and var are the running estimate. torch's `momentum` is 1 - ema_keep, Keras' is ema_keep.
    Shape: (N, C), (N, C, H, W), (N, T, C); on tokens the statistics run over T too.
    Source: Ioffe, Szegedy 2015, Batch Normalization.

    Options:
        running_correction: correction of the stored variance. torch normalizes with correction 0 and stores with 1.
        population_statistics: `ema` as above; `cumulative`, the plain average of all batches so far (torch's
            momentum=None); `precise`: the training loop recomputes it before each evaluation (Wu, Johnson 2021).
        virtual_batch_size: take the statistics over groups of this many samples, in the order of the batch: Ghost
            BatchNorm, Hoffer et al. 2017. The running estimate moves once a batch, toward the average of the groups;
            in the paper it moves once a group.
        freeze_after: number of training batches after which the running estimate normalizes and stops moving.
        deviation: l1 or linf replaces the standard deviation, see `functional.moments`. `running_var` holds its
            square; the published code averages its inverse.

    Raises:
        ValueError: another number of features, training on one value per channel, or a batch that `virtual_batch_size`
            does not divide.
    """

    batch_statistics = True
    noisy = False  # whether training adds what eval mode lacks
    recompute_population_statistics = staticmethod(recompute_population_statistics)

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
        ema_keep: float = 0.9,
        running_correction: int = 1,
        population_statistics: PopulationStatistics = "ema",
        virtual_batch_size: int | None = None,
        freeze_after: int | None = None,
        deviation: Deviation = "l2",
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        check_kept("ema_keep", ema_keep)
        require_at_least("freeze_after", freeze_after, 0)
        if running_correction not in (0, 1):
            raise ValueError(f"running_correction={running_correction}: no such variance; use 0 or 1")
        require_choice("population_statistics", population_statistics, get_args(PopulationStatistics))
        require_choice("deviation", deviation, get_args(Deviation))
        require_at_least("virtual_batch_size", virtual_batch_size, 1)
        self.ema_keep, self.running_correction = ema_keep, running_correction
        self.population_statistics, self.virtual_batch_size = population_statistics, virtual_batch_size
        self.freeze_after, self.deviation, self.mixes_tokens = freeze_after, deviation, channel_dim == -1
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def normalize(self, x: Tensor) -> Tensor:
        return self.over_samples(x, x.shape[0])

    def normalize_tokens(self, x: Tensor) -> Tensor:
        return self.over_samples(x.flatten(0, -2), x.shape[0]).view(x.shape)  # (N, T, C) -> (N T, C) and back

    def over_samples(self, x: Tensor, samples: int) -> Tensor:
        if not self.uses_batch():
            return self.from_population(x)
        groups = self.virtual_batches(x, samples)
        self.num_batches_tracked.add_(1)
        return self.from_batch(x, groups)

    def uses_batch(self) -> bool:
        if self.freeze_after is None or not self.training:
            return self.training
        return int(self.num_batches_tracked) < self.freeze_after

    def virtual_batches(self, x: Tensor, samples: int) -> int:
        """Number of groups of samples that are normalized separately."""
        size = self.virtual_batch_size or samples
        if samples % size:
            raise ValueError(
                f"virtual_batch_size={size}: does not divide the {pluralize(samples, 'sample')} that the layer sees at "
                "once; use a divisor of batch_size (of the micro-batch under gradient accumulation)"
            )
        groups = samples // size
        if x.numel() == self.num_features * groups:
            raise ValueError(
                f"x.shape={tuple(x.shape)}: BatchNorm cannot train on one value per channel; "
                "use a larger batch_size or norm=layernorm"
            )
        return groups

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        ema = self.population_statistics != "cumulative"
        plain = ema and self.eps_position == "inside" and self.deviation == "l2"
        mixed = (
            self.correction and self.running_mean.element_size() < 4
        )  # torch takes no float32 with half buffers
        if groups == 1 and self.native and plain and not mixed:
            return self.torch_batch_norm(x)
        weight, bias = self.weight, self.bias
        if groups > 1:  # virtual batches become channels: (N, C, ...) -> (N/G, G C, ...)
            x = x.unflatten(0, (groups, -1)).transpose(0, 1).flatten(1, 2)
            weight, bias = (None if p is None else p.repeat(groups) for p in (weight, bias))
        mean, var = self.statistics(x)
        y = self.standardize(x, mean, var, weight, bias)
        self.track(mean, var, x)
        return y if groups == 1 else y.unflatten(1, (groups, -1)).transpose(0, 1).flatten(0, 1)

    def torch_batch_norm(self, x: Tensor) -> Tensor:
        """torch's layer with arguments that give `correction` (see `kernels`). It moves the running estimate."""
        n = x.numel() // self.num_features
        weight, eps, stored = self.weight, self.eps, 1 - (1 - self.running_correction) / n
        if self.correction:
            keep = (n - 1) / n
            x, eps = functional.at_least_float32(x), eps * keep
            weight = x.new_full((self.num_features,), keep**0.5) if weight is None else weight * keep**0.5
        # torch adds var n / (n - 1). To store var itself, pass a copy at that scale: torch keeps its arguments for the
        # backward pass, so the buffer must not change after the call.
        running_var = self.running_var if stored == 1 else self.running_var / stored
        tracked = {"eps": eps, "training": True, "momentum": 1 - self.ema_keep}
        y = kernels.batch_norm(x, self.running_mean, running_var, weight, self.bias, **tracked)
        if stored != 1:
            self.running_var.copy_(running_var * stored)
        return y

    def runs_native(self, x: Tensor) -> bool:
        return self.native and self.deviation == "l2" and kernels.usable(x)

    def statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (correction 0) of the batch, one per channel."""
        if self.runs_native(x):
            return kernels.batch_statistics(x)
        dims = [0, *range(2, x.dim())]
        mean, var = functional.moments(functional.at_least_float32(x), dims, 0, self.deviation)
        return mean.flatten(), var.flatten()

    def standardize(
        self, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """(x - mean) r(var) weight + bias, with the gradient through the statistics of the batch."""
        options = {"eps": self.eps, "eps_position": self.eps_position}
        if self.runs_native(x):
            return kernels.normalize_batch(x, mean, var, weight, bias, correction=self.correction, **options)
        return functional.batch_norm(x, mean, self.corrected(var, x), weight, bias, **options)

    def corrected(self, var: Tensor, x: Tensor) -> Tensor:
        return var * self.ratio(self.correction, x) if self.correction else var

    def ratio(self, correction: int, x: Tensor) -> float:
        """Variance with this correction divided by the variance with correction 0."""
        n = x.numel() // x.shape[1]
        return n / (n - correction) if self.deviation == "l2" else 1.0

    def track(self, mean: Tensor, var: Tensor, x: Tensor) -> None:
        """Move the running estimate in place; `torch.func` would lose an assignment to the buffer."""
        if len(mean) > self.num_features:
            mean, var = (m.view(-1, self.num_features).mean(0) for m in (mean, var))  # over virtual batches
        step = 1 - self.ema_keep
        if self.population_statistics == "cumulative":
            step = 1 / self.num_batches_tracked.to(self.running_mean.dtype)
        self.running_mean.mul_(1 - step).add_(mean.detach() * step)
        self.running_var.mul_(1 - step).add_(var.detach() * (step * self.ratio(self.running_correction, x)))

    def from_population(self, x: Tensor) -> Tensor:
        if not self.native:
            options = {"eps": self.eps, "eps_position": self.eps_position}
            stored = self.running_mean, self.running_var
            return functional.batch_norm(x, *stored, self.weight, self.bias, **options)
        var, eps = self.running_var, self.eps
        if self.eps_position == "outside":  # (sqrt(var) + eps)^2 under the root
            var, eps = (var.sqrt() + eps).square(), 0.0
        return kernels.batch_norm(x, self.running_mean, var, self.weight, self.bias, eps=eps)
