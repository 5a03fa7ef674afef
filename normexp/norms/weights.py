"""Normalized weights instead of normalized activations: options of the models' linear maps and convolutions.

Both take a module, reparametrize its `weight` in place and return the module. They draw no random numbers, and the
weight that was initialized is the one that trains on.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from normexp.norms import sample_kernels


def standardize_weights(module: nn.Module, *, eps: float = 1e-5, scaled: bool = False) -> nn.Module:
    """W = (V - mean) / sqrt(var + eps) over the fan-in of each output (C_out, ...): weight standardization.

    With `scaled`, W = gain * (V - mean) / sqrt((var + eps) * fan_in) with a learned gain (C_out) that starts at 1, so
    that a linear map keeps the variance of its input.
    Source: Qiao et al. 2019, Micro-Batch Training with Batch-Channel Normalization and Weight Standardization (their
    code adds eps to the unbiased std); `scaled`: Brock et al. 2021, NFNets, scaled weight standardization.
    """
    parametrize.register_parametrization(
        module, "weight", WeightStandardization(len(module.weight), eps, scaled)
    )
    return module


def normalize_weights(module: nn.Module) -> nn.Module:
    """W = g V / |V| with a learned g for each output: weight normalization, torch's own.

    g starts at |V|, so the map starts as it was initialized.
    Source: Salimans, Kingma 2016, Weight Normalization.
    """
    return parametrizations.weight_norm(module)


class WeightStandardization(nn.Module):
    def __init__(self, num_outputs: int, eps: float, scaled: bool) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(num_outputs)) if scaled else None

    def forward(self, weight: Tensor) -> Tensor:
        standardized = sample_kernels.group_norm(weight, 1, None, None, eps=self.eps)  # an output is a sample
        if self.gain is None:
            return standardized
        scale = self.gain * weight[0].numel() ** -0.5
        return standardized * scale.view(-1, *[1] * (weight.dim() - 1))  # (C_out) -> (C_out, 1, ...)
