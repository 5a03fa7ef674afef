"""The default networks in plain torch, as a tutorial writes them: what scripts/benchmark.py compares with."""

import itertools
from typing import Any

import torch
from torch import Tensor, nn


def plain(model: str, options: dict[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """The network of `configs/model` with LayerNorm: equal layers, equally many parameters.

    Args:
        options: the configuration of the model; depth, width and heads are read.
        shape: of a sample, (C, H, W) or (T,).
    """
    depth, width = options["depth"], options["width"]
    if model == "mlp":
        sizes = [torch.Size(shape).numel(), *[width] * depth]
        hidden = [
            layer
            for fan_in, fan_out in itertools.pairwise(sizes)
            for layer in (nn.Linear(fan_in, fan_out), nn.LayerNorm(fan_out), nn.ReLU())
        ]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, classes))
    if model == "cnn":
        layers: list[nn.Module] = []
        fan_in = shape[0]
        for stage, count in enumerate(depth):
            layers += [nn.MaxPool2d(2)] * (stage > 0)
            for _ in range(count):
                fan_out = width * 2**stage
                layers += [*convolution(fan_in, fan_out), nn.ReLU()]
                fan_in = fan_out
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, classes))
    if model == "resnet":
        channels = [width * 2**stage for stage in range(3) for _ in range((depth - 2) // 6)]
        blocks = [Block(fan_in, fan_out) for fan_in, fan_out in itertools.pairwise([width, *channels])]
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))
        return nn.Sequential(*convolution(shape[0], width), nn.ReLU(), *blocks, *head)
    return Tokens(shape, classes, depth, width, options["heads"])


def convolution(fan_in: int, fan_out: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    """A 3x3 convolution, and LayerNorm over all of an image with a gain a channel, which torch calls a single group."""
    return nn.Conv2d(fan_in, fan_out, 3, stride, 1), nn.GroupNorm(1, fan_out)


class Block(nn.Module):
    """The basic block of He et al. 2015 with a shortcut of zero channels."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.stride, self.more = fan_out // fan_in, fan_out - fan_in
        first, second = convolution(fan_in, fan_out, self.stride), convolution(fan_out, fan_out)
        self.branch = nn.Sequential(*first, nn.ReLU(), *second)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, 0, self.more))
        return (self.branch(x) + shortcut).relu()


class Tokens(nn.Module):
    """torch's own transformer: over 16 patches of an image, or causal over characters."""

    def __init__(self, shape: tuple[int, ...], classes: int, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.side, self.causal = shape[-1] // 4, len(shape) == 1
        length = shape[0] if self.causal else 16
        self.embedding = (
            nn.Embedding(classes, width) if self.causal else nn.Linear(shape[0] * self.side**2, width)
        )
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(width)
        self.blocks = nn.TransformerEncoder(layer, depth, norm, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        if self.causal:
            h = self.embedding(x) + self.positions
            return self.output(self.blocks(h, mask=self.mask, is_causal=True))
        side = self.side
        patches = x.unfold(2, side, side).unfold(3, side, side)  # (N, C, 4, 4, side, side)
        h = self.embedding(patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)) + self.positions
        return self.output(self.blocks(h).mean(1))
