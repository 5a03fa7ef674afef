"""Plain convolutional network in the manner of VGG."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from normexp.format import require_at_least, require_choice, require_depth
from normexp.models.layers import (
    Activation,
    Initialization,
    Layer,
    NormPosition,
    WeightNorm,
    initialized,
    make_activation,
)
from normexp.models.sites import Site, layer_name

Pool = Literal["between", "first"]


class Whitening(nn.Conv2d):
    """The fixed first layer of Jordan 2024, "94% on CIFAR-10 in 3.29 seconds", arXiv:2404.00498: with eigenvectors v
    and eigenvalues s of the second moments of 2x2 patches (4 C numbers each), the filters v / sqrt(s + eps) and their
    negatives.

    (N, C, H, W) to (N, 8 C, H - 1, W - 1). `fit` must be called before use.
    """

    def __init__(self, channels: int, eps: float = 5e-4):
        super().__init__(channels, 8 * channels, 2, bias=False)
        self.eps = eps
        self.weight.requires_grad_(False)

    def fit(self, images: Tensor) -> None:
        """Take the filters from images, (N, C, H, W)."""
        patches = (
            images.double().unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)
        )
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = (vectors / (values + self.eps).sqrt()).T.view(-1, *self.weight.shape[1:])
        self.weight.copy_(torch.cat([filters, -filters]))


class CNN(nn.Module):
    """Stages of 3x3 convolutions with 2x2 max-pooling between them, then global average pooling and a linear map.

    Channels double from stage to stage, up to 8 times ``width``. Depth [1, 1, 2, 2, 2] with width 64 gives the
    convolutions of VGG-A (Simonyan and Zisserman 2014, arXiv:1409.1556), the network of Santurkar et al. 2018.
    VGG-A's three dense layers at the end are omitted.

    Shape: images (N, C, H, W) to logits (N, num_classes). Each stage but the last halves H and W, rounding down.

    Args:
        input_shape: (C, H, W).
        norm: factory, called as ``norm(num_features, channel_dim=1, layer=k)``; k counts convolutions from 1.
        depth: number of convolutions in each stage.
        width: channels of the first stage.
        norm_position: before or after the activation.
        pool: where max-pooling stands. `between` stages; or `first`, in every stage behind its first convolution,
            before its norm, which then works on a quarter of the numbers.
        whiten: begin with `Whitening` and the activation.
        weight_norm: reparametrizes each linear map, e.g. weight standardization; None does nothing.

    Raises:
        ValueError: no stage, an empty stage, width below 1, an image too small for the stages, an unknown choice.
    """

    accepts = "image"
    convolves = True

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        depth: Sequence[int],
        width: int,
        activation: Activation = "relu",
        norm_position: NormPosition = "pre_activation",
        pool: Pool = "between",
        whiten: bool = False,
        initialization: Initialization = "he",
        weight_norm: WeightNorm | None = None,
    ):
        super().__init__()
        channels, *sides = input_shape
        if not depth or min(depth) < 1:
            raise ValueError(f"depth={list(depth)}: give at least one stage, each of at least 1 convolution")
        require_depth(sum(depth))
        require_at_least("width", width, 1)
        if min(sides) < 2 ** (len(depth) - 1):
            raise ValueError(
                f"depth={list(depth)}: {len(depth)} stages halve a side of {min(sides)} pixels to nothing; "
                "use fewer stages"
            )
        require_choice("pool", pool, get_args(Pool))
        if pool == "first" and min(sides) - whiten < 2 ** len(depth):
            raise ValueError(
                f"pool=first: {len(depth)} stages halve a side of {min(sides)} pixels to nothing; use fewer"
            )
        self.pool = nn.MaxPool2d(2)
        self.whitening: nn.Module | None = None
        if whiten:
            self.whitening = Whitening(channels)
            self.whitened = make_activation(activation)
            channels = 8 * channels
        self.stages = nn.ModuleList()
        k = 0
        for stage, convolutions in enumerate(depth):
            self.stages.append(nn.Sequential())
            for _ in range(convolutions):
                k += 1
                fan_in, channels = channels, width * min(2**stage, 8)
                convolution = initialized(
                    nn.Conv2d(fan_in, channels, 3, padding=1), initialization, weight_norm
                )
                if pool == "first" and not len(self.stages[-1]):
                    convolution = nn.Sequential(convolution, nn.MaxPool2d(2))
                layer = Layer(
                    convolution,
                    norm(channels, channel_dim=1, layer=k),
                    make_activation(activation),
                    norm_position,
                )
                self.stages[-1].append(layer)
        if pool == "first":
            self.pool = nn.Identity()
        self.output = initialized(nn.Linear(channels, num_classes), initialization, weight_norm)

    def start_from(self, images: Tensor) -> None:
        """Take the whitening filters, if there are any, from training images."""
        if self.whitening is not None:
            self.whitening.fit(images)

    def forward(self, images: Tensor) -> Tensor:
        # (N, 8 C, H - 1, W - 1)
        x = images if self.whitening is None else self.whitened(self.whitening(images))
        x = self.stages[0](x)  # (N, width, H, W)
        for stage in self.stages[1:]:
            x = stage(self.pool(x))  # (N, C', H/2, W/2)
        x = x.mean(dim=(2, 3))  # (N, C')
        return self.output(x)  # (N, num_classes)

    def sites(self) -> list[Site]:
        layers = [layer for stage in self.stages for layer in stage.children()]
        last = len(layers)
        sites = [site for i, layer in enumerate(layers) for site in layer.sites(layer_name(i, last))]
        return [*sites, Site(layer_name(last, last, "output"), "linear", self.output)]
