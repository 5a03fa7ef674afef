"""Normalized weights instead of normalized activations: options of the models' linear maps and convolutions.

A model calls `weight_norm(module)` for each module. The call reparametrizes `module.weight` in place and returns the
module. It draws no random numbers, and training starts from the weight that was initialized. In yaml:
    model.weight_norm={_target_: normexp.norms.WeightStandardization}
"""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from normexp.norms import kernels
from normexp.norms.base import DEFAULT_EPS


class WeightStandardization:
    """W = (V - mean) / sqrt(var + eps) over the fan-in of each output (C_out, ...).

    With `scaled`, W = g * (V - mean) / sqrt((var + eps) * fan_in) with a learned gain g (C_out) that starts at `gain`.
    With gain 1 a linear map keeps the variance of its input. After a ReLU the gain must be
    sqrt(2 / (1 - 1 / pi)) = 1.7139, because weights of mean 0 remove the mean of ReLU's output. The paper puts this
    constant into the activation.
    Source: Qiao et al. 2019, Micro-Batch Training with Batch-Channel Normalization and Weight Standardization (their
    code adds eps to the unbiased std); `scaled`: Brock et al. 2021, NFNets, scaled weight standardization.
    Raises ValueError for a gain other than 1 without `scaled`, which has the only gain.
    """

    def __init__(self, *, eps: float = DEFAULT_EPS, scaled: bool = False, gain: float = 1.0) -> None:
        if gain != 1 and not scaled:
            raise ValueError(f"gain={gain}: plain weight standardization has none; set scaled=true")
        self.eps, self.scaled, self.gain = eps, scaled, float(gain)

    def __call__(self, module: nn.Module) -> nn.Module:
        gain = torch.full((len(module.weight),), self.gain) if self.scaled else None
        parametrize.register_parametrization(module, "weight", _Standardized(self.eps, gain))
        return module


class WeightNormalization:
    """W = g V / |V| with a learned length g for each output: torch's own parametrization.

    g starts at |V|, so the map keeps its initial weights.
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
        # Each output is a sample.
        standardized = kernels.group_norm(weight, 1, None, None, eps=self.eps)
        if self.gain is None:
            return standardized
        scale = self.gain * weight[0].numel() ** -0.5
        return standardized * scale.view(-1, *[1] * (weight.dim() - 1))  # (C_out) -> (C_out, 1, ...)
