"""Precise BatchNorm: recompute the population's statistics instead of averaging them during training."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from normexp.norms import functional

PopulationStatistics = Literal["ema", "cumulative", "precise"]


def recompute_population_statistics(model: nn.Module, batches: Iterable) -> None:
    """Set `running_mean` and `running_var` of every norm of `model` to the mean and variance of its inputs.

    `batches` yields inputs, or tuples that begin with them. Every sample has the same weight, however it is batched:
    batch statistics (n_i, mean_i, var_i) merge into mean = sum n_i mean_i / n and
    var = sum n_i (var_i + (mean_i - mean)^2) / (n - running_correction). Meanwhile the norms normalize with the batch's
    statistics, as in training; the rest of the model is in eval mode. Modes, other buffers and random streams are put
    back. If a batch fails, everything is put back.
    Source: Wu, Johnson 2021, Rethinking "Batch" in BatchNorm.
    """
    layers = [m for m in model.modules() if hasattr(m, "running_mean") and hasattr(m, "channel_dim")]
    merged: dict[nn.Module, tuple[int, Tensor, Tensor]] = {}

    def measure(layer: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        x = inputs[0] if layer.channel_dim == 1 else inputs[0].flatten(0, -2)
        if (mask := named.get("mask")) is not None:
            x = inputs[0].movedim(layer.channel_dim, -1)[mask]
        dims, deviation = [0, *range(2, x.dim())], getattr(layer, "deviation", "l2")
        mean, var = (
            m.flatten() for m in functional.moments(functional.at_least_float32(x), dims, 0, deviation)
        )
        merged[layer] = merge(merged.get(layer), (x.numel() // len(mean), mean, var))

    modes = {module: module.training for module in model.modules()}
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    hooks = [layer.register_forward_pre_hook(measure, with_kwargs=True) for layer in layers]
    try:
        model.eval()
        for layer in layers:
            layer.train()
        gpus = {parameter.device for parameter in model.parameters() if parameter.is_cuda}
        with torch.no_grad(), torch.random.fork_rng(gpus):
            for batch in batches:
                model(batch[0] if isinstance(batch, tuple | list) else batch)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes.items():
            module.training = mode
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    for layer, (n, mean, var) in merged.items():
        layer.running_mean.copy_(mean)
        layer.running_var.copy_(var * (n / (n - layer.running_correction)))


def merge(a: tuple[int, Tensor, Tensor] | None, b: tuple[int, Tensor, Tensor]) -> tuple[int, Tensor, Tensor]:
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
