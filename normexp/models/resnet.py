"""The CIFAR residual network of He et al. 2015, also without its skip connections and without its norms."""

import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from normexp.format import require_at_least, require_depth
from normexp.models.layers import Initialization, WeightNorm, initialized
from normexp.models.sites import Site, layer_name

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


class ResNet(nn.Module):
    """A 3x3 convolution, three stages of n residual blocks with ``width`` times 1, 2, 4 channels, and a linear map.

    Section 4.2 of He et al. 2015, arXiv:1512.03385: depth = 6n + 2, shortcuts without parameters, no max-pooling. The
    second and third stage begin with stride 2. Convolutions have a bias here, so every norm has the same weights.

    ``alpha`` selects the scaled blocks of Brock et al. 2021 (arXiv:2101.08692), meant for the norm ``none``. In units
    of the stem's variance, the variance v of the stream starts at 1 and each block adds alpha^2. This holds with He's
    initialization, and with scaled weight standardization of ReLU's gain, sqrt(2 / (1 - 1/pi)). One thing differs from
    the paper: when channels double, He's zero channels halve the average v, and beta = sqrt(v) follows. The paper
    resets v with a convolution in the shortcut.

    Shape: images (N, C, H, W) to logits (N, num_classes).

    Args:
        input_shape: (C, H, W).
        norm: factory, called as ``norm(num_features, channel_dim=1, layer=k)``; k counts convolutions from 1.
        depth: 6n + 2: 20, 32, 44, 56, 110.
        width: channels of the first stage.
        skip: False removes the skip connections and nothing else; the weights stay bit-identical.
        alpha: None for He's blocks; a positive number, 0.2 in the paper, for scaled ones.
        weight_norm: reparametrizes each linear map, e.g. weight standardization; None does nothing.

    Raises:
        ValueError: depth not 6n + 2, width below 1, alpha not positive or without skip, an unknown choice.
    """

    accepts = "image"
    convolves = True

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        depth: int,
        width: int,
        skip: bool = True,
        alpha: float | None = None,
        initialization: Initialization = "he",
        weight_norm: WeightNorm | None = None,
    ):
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise ValueError(f"depth={depth}: must be 6n + 2; use 8, 14, 20, 32, 44, 56 or 110")
        require_depth(depth)
        require_at_least("width", width, 1)
        if alpha is not None and alpha <= 0:
            raise ValueError(
                f"alpha={alpha}: must be positive; use 0.2 as in the paper, or null for He's blocks"
            )
        if alpha is not None and not skip:
            raise ValueError(
                f"alpha={alpha}: scales what is added to a skip connection; set skip=true or alpha=null"
            )

        def conv(fan_in: int, fan_out: int, stride: int) -> nn.Module:
            return initialized(nn.Conv2d(fan_in, fan_out, 3, stride, padding=1), initialization, weight_norm)

        scaled = alpha is not None
        self.stem = conv(input_shape[0], width, 1)
        self.stem_norm = norm(width, channel_dim=1, layer=1)
        self.stem_activation = nn.Identity() if scaled else nn.ReLU()  # scaled blocks begin with a ReLU
        self.stream = nn.Identity()

        self.blocks = nn.ModuleList()
        channels, variance = width, 1.0
        for stage in range(3):
            for i in range((depth - 2) // 6):
                fan_in, channels = channels, width * 2**stage
                stride = 2 if stage > 0 and i == 0 else 1
                k = 2 * len(self.blocks) + 2
                if scaled:
                    beta = math.sqrt(variance)
                    block = ScaledBlock(
                        conv, norm, fan_in, channels, stride=stride, k=k, alpha=alpha, beta=beta
                    )
                    variance = variance * fan_in / channels + alpha**2
                else:
                    block = BasicBlock(conv, norm, fan_in, channels, stride=stride, k=k, skip=skip)
                self.blocks.append(block)

        self.final_activation = nn.ReLU() if scaled else nn.Identity()  # He's blocks end with a ReLU
        self.output = initialized(nn.Linear(channels, num_classes), initialization, weight_norm)
        self.scaled = scaled

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem_activation(self.stem_norm(self.stem(images)))  # (N, width, H, W)
        x = self.stream(x)
        for block in self.blocks:
            x = block(x)  # (N, 4*width, H/4, W/4) after the last
        x = self.final_activation(x).mean(dim=(2, 3))  # (N, 4*width)
        return self.output(x)  # (N, num_classes)

    def sites(self) -> list[Site]:
        last = len(self.blocks) + 1
        stem, output = layer_name(0, last, "stem"), layer_name(last, last, "output")
        sites = [Site(stem, "linear", self.stem), Site(stem, "norm", self.stem_norm)]
        if not self.scaled:
            sites.append(Site(stem, "activation", self.stem_activation))
        sites.append(Site(stem, "residual", self.stream))
        for i, block in enumerate(self.blocks, start=1):
            sites += block.sites(layer_name(i, last))
        if self.scaled:
            sites.append(Site(output, "activation", self.final_activation))
        return [*sites, Site(output, "linear", self.output)]
