"""The two residual blocks of the ResNet: He's, and the scaled one of normalizer-free networks."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from normexp.sites import Site

Convolution = Callable[..., nn.Module]


def shortcut(x: Tensor, channels: int, stride: int) -> Tensor:
    """He's option A, without parameters: keep every ``stride``-th pixel and add channels of zeros."""
    x = x[:, :, ::stride, ::stride]  # (N, C, H/stride, W/stride)
    return F.pad(x, (0, 0, 0, 0, 0, channels - x.shape[1]))  # (N, channels, H/stride, W/stride)


class BasicBlock(nn.Module):
    """``relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))``; with ``skip=False`` the shortcut is omitted.

    Figure 2 of He et al. 2015, arXiv:1512.03385. The residual site is the sum, before its ReLU.
    Shape: (N, C, H, W) to (N, channels, H/stride, W/stride).
    """

    def __init__(
        self,
        conv: Convolution,
        norm: Callable[..., nn.Module],
        fan_in: int,
        channels: int,
        *,
        stride: int,
        k: int,
        skip: bool,
    ):
        super().__init__()
        self.channels, self.stride, self.skip = channels, stride, skip
        self.conv1 = conv(fan_in, channels, stride)
        self.norm1 = norm(channels, channel_dim=1, layer=k)
        self.activation1 = nn.ReLU()
        self.conv2 = conv(channels, channels, 1)
        self.norm2 = norm(channels, channel_dim=1, layer=k + 1)
        self.stream = nn.Identity()
        self.activation2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        h = self.activation1(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        if self.skip:
            h = shortcut(x, self.channels, self.stride) + h
        return self.activation2(self.stream(h))

    def sites(self, layer: str) -> list[Site]:
        first, second = f"{layer}_conv1", f"{layer}_conv2"
        return [
            Site(first, "linear", self.conv1),
            Site(first, "norm", self.norm1),
            Site(first, "activation", self.activation1),
            Site(second, "linear", self.conv2),
            Site(second, "norm", self.norm2),
            Site(second, "residual", self.stream),
            Site(second, "activation", self.activation2),
        ]


class ScaledBlock(nn.Module):
    """``shortcut(x) + alpha * f(x / beta)``, f = norm(conv(relu(norm(conv(relu(.)))))), for networks without norms.

    Brock et al. 2021, arXiv:2101.08692. ``beta`` is the predicted standard deviation of x. So input and output of f
    have unit variance, and each block adds alpha^2. Shape: (N, C, H, W) to (N, channels, H/stride, W/stride).
    """

    def __init__(
        self,
        conv: Convolution,
        norm: Callable[..., nn.Module],
        fan_in: int,
        channels: int,
        *,
        stride: int,
        k: int,
        alpha: float,
        beta: float,
    ):
        super().__init__()
        self.channels, self.stride, self.alpha, self.beta = channels, stride, alpha, beta
        self.activation1 = nn.ReLU()
        self.conv1 = conv(fan_in, channels, stride)
        self.norm1 = norm(channels, channel_dim=1, layer=k)
        self.activation2 = nn.ReLU()
        self.conv2 = conv(channels, channels, 1)
        self.norm2 = norm(channels, channel_dim=1, layer=k + 1)
        self.stream = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(self.conv1(self.activation1(x / self.beta)))
        h = self.norm2(self.conv2(self.activation2(h)))
        return self.stream(shortcut(x, self.channels, self.stride) + self.alpha * h)

    def sites(self, layer: str) -> list[Site]:
        first, second = f"{layer}_conv1", f"{layer}_conv2"
        return [
            Site(first, "activation", self.activation1),
            Site(first, "linear", self.conv1),
            Site(first, "norm", self.norm1),
            Site(second, "activation", self.activation2),
            Site(second, "linear", self.conv2),
            Site(second, "norm", self.norm2),
            Site(second, "residual", self.stream),
        ]
