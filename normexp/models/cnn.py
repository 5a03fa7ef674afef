"""Plain convolutional network in the manner of VGG."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from normexp.arguments import require_at_least, require_depth
from normexp.models.layers import (
    Activation,
    Initialization,
    Layer,
    NormPosition,
    WeightNorm,
    linear_map,
    make_activation,
)
from normexp.models.sites import Site, layer_name


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
        self.pool = nn.MaxPool2d(2)
        self.stages = nn.ModuleList()
        k = 0
        for stage, convolutions in enumerate(depth):
            self.stages.append(nn.Sequential())
            for _ in range(convolutions):
                k += 1
                fan_in, channels = channels, width * min(2**stage, 8)
                layer = Layer(
                    linear_map(nn.Conv2d(fan_in, channels, 3, padding=1), initialization, weight_norm),
                    norm(channels, channel_dim=1, layer=k),
                    make_activation(activation),
                    norm_position,
                )
                self.stages[-1].append(layer)
        self.output = linear_map(nn.Linear(channels, num_classes), initialization, weight_norm)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stages[0](images)  # (N, width, H, W)
        for stage in self.stages[1:]:
            x = stage(self.pool(x))  # (N, C', H/2, W/2)
        x = x.mean(dim=(2, 3))  # (N, C')
        return self.output(x)  # (N, num_classes)

    def sites(self) -> list[Site]:
        layers = [layer for stage in self.stages for layer in stage.children()]
        last = len(layers)
        sites = [site for i, layer in enumerate(layers) for site in layer.sites(layer_name(i, last))]
        return [*sites, Site(layer_name(last, last, "output"), "linear", self.output)]
