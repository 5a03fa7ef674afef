"""Normalized weights instead of normalized activations: options of the models' linear maps and convolutions.

A model calls them with each module, `weight_norm(module)`, which reparametrizes `module.weight` in place and returns
the module. They draw no random numbers, and the weight that was initialized is the one that trains on. In yaml:
    model.weight_norm={_target_: normexp.norms.WeightStandardization}
"""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from normexp.norms import sample_kernels


class WeightStandardization:
    """W = (V - mean) / sqrt(var + eps) over the fan-in of each output (C_out, ...).

    With `scaled`, W = gain * (V - mean) / sqrt((var + eps) * fan_in) with a learned gain (C_out) that starts at 1: a
    linear map then keeps the variance of its input.
    Source: Qiao et al. 2019, Micro-Batch Training with Batch-Channel Normalization and Weight Standardization (their
    code adds eps to the unbiased std); `scaled`: Brock et al. 2021, NFNets, scaled weight standardization.
    """

    def __init__(self, *, eps: float = 1e-5, scaled: bool = False) -> None:
        self.eps, self.scaled = eps, scaled

    def __call__(self, module: nn.Module) -> nn.Module:
        gain = torch.ones(len(module.weight)) if self.scaled else None
        parametrize.register_parametrization(module, "weight", _Standardized(self.eps, gain))
        return module


class WeightNormalization:
    """W = g V / |V| with a learned length g for each output: torch's own parametrization.

    g starts at |V|, so the map starts as it was initialized.
    Source: Salimans, Kingma 2016, Weight Normalization.
    """

    def __call__(self, module: nn.Module) -> nn.Module:
        return parametrizations.weight_norm(module)


class _Standardized(nn.Module):
    def __init__(self, eps: float, gain: Tensor | None) -> None:
        super().__init__()
        self.eps = eps
        self.gain = None if gain is None else nn.Parameter(gain)

    def forward(self, weight: Tensor) -> Tensor:
        standardized = sample_kernels.group_norm(weight, 1, None, None, eps=self.eps)  # an output is a sample
        if self.gain is None:
            return standardized
        scale = self.gain * weight[0].numel() ** -0.5
        return standardized * scale.view(-1, *[1] * (weight.dim() - 1))  # (C_out) -> (C_out, 1, ...)
