"""Norms for comparison: torch's nearest native layer, and the form that tutorials write."""

import torch
from torch import Tensor, nn


def features(shape: tuple[int, ...]) -> int:
    return shape[1] if len(shape) == 4 else shape[-1]


def native(name: str, shape: tuple[int, ...]) -> nn.Module:
    """torch's layer over the same axes, of the family of the config `name`; LayerNorm if torch has no such family."""
    c, image, tokens = features(shape), len(shape) == 4, len(shape) == 3
    if name.startswith(("batch", "power", "switchable")):
        return nn.BatchNorm2d(c) if image else OverRows(nn.BatchNorm1d(c))
    if name.startswith(("rmsnorm", "scalenorm")):
        return nn.RMSNorm(shape[1:] if image else c, eps=1e-5)
    if name.startswith("instance"):
        return OverTime(nn.InstanceNorm1d(c, affine=True)) if tokens else nn.InstanceNorm2d(c, affine=True)
    if name.startswith("group"):
        return nn.GroupNorm(4, c) if image else OverRows(nn.GroupNorm(4, c))
    return nn.GroupNorm(1, c) if image else nn.LayerNorm(c)


class OverRows(nn.Module):
    """Applies a layer for (N, C) to tokens (N, T, C)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(0, -2)).view(x.shape)


class OverTime(OverRows):
    """Applies a layer for (N, C, T) to tokens (N, T, C)."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2)).transpose(1, 2)


class ByHand(nn.Module):
    """(x - mean) / sqrt(var + eps) * weight + bias with x.mean() and x.var(), and running averages for BatchNorm."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        super().__init__()
        channel, last = (1 if len(shape) == 4 else len(shape) - 1), len(shape) - 1
        self.batch, self.rms = name.startswith("batch"), name.startswith("rms")
        self.outside = name.endswith(("outside", "annotated"))
        self.correction = int(name.endswith(("unbiased", "annotated")))
        self.eps = 1e-6 if name.endswith("annotated") else 1e-5
        self.dims = list(range(channel, last + 1))
        if self.batch or name.startswith("instance"):
            self.dims = [dim for dim in range(0 if self.batch else 1, last + 1) if dim != channel]
        self.groups = 4 if name.startswith("group") else 1  # the channels of a group become a separate axis
        self.grouped = (*shape[:channel], self.groups, shape[channel] // self.groups, *shape[channel + 1 :])
        self.shape = shape
        per_channel = (shape[channel], *[1] * (last - channel))
        self.weight, self.bias = nn.Parameter(torch.ones(per_channel)), nn.Parameter(torch.zeros(per_channel))
        self.register_buffer("running_mean", torch.zeros(per_channel))
        self.register_buffer("running_var", torch.ones(per_channel))

    def forward(self, x: Tensor) -> Tensor:
        if self.rms:
            return x * torch.rsqrt(x.pow(2).mean(self.dims, keepdim=True) + self.eps) * self.weight
        dims = self.dims
        if self.groups > 1:
            x, dims = x.view(self.grouped), [dim + 1 for dim in dims]
        mean = x.mean(dims, keepdim=True)
        var = x.var(dims, correction=self.correction, keepdim=True)
        if self.batch:
            for running, new in ((self.running_mean, mean), (self.running_var, var)):
                running.mul_(0.9).add_(new.detach().view(running.shape), alpha=0.1)
        std = var.sqrt() + self.eps if self.outside else (var + self.eps).sqrt()
        return ((x - mean) / std).view(self.shape) * self.weight + self.bias
