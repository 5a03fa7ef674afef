"""Multilayer perceptron: the network that most sentences about normalization are about."""

import math
from collections.abc import Callable
from itertools import chain, pairwise, repeat

from torch import Tensor, nn

from normexp.format import require_at_least, require_depth
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


class MLP(nn.Module):
    """``depth`` hidden layers of ``width`` units, then a linear map to the logits.

    Shape: images (N, C, H, W), flattened, to logits (N, num_classes).

    Args:
        input_shape: (C, H, W).
        norm: factory, called as ``norm(num_features, channel_dim=1, layer=k)``; k counts layers from 1.
        norm_position: before or after the activation.
        norm_output: also normalize the logits. In Figure 6 of Ba et al. 2016 BN does so and LN does not.
        weight_norm: reparametrizes each linear map, e.g. weight normalization; None does nothing.

    Raises:
        ValueError: depth or width below 1, or an unknown choice.
    """

    accepts = "image"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        depth: int,
        width: int,
        activation: Activation = "relu",
        norm_position: NormPosition = "pre_activation",
        norm_output: bool = False,
        initialization: Initialization = "he",
        weight_norm: WeightNorm | None = None,
    ):
        super().__init__()
        require_depth(depth)
        require_at_least("width", width, 1)
        if initialization == "dirac":
            raise ValueError("initialization=dirac: sets filters, and an MLP has none; use he")
        widths = chain([math.prod(input_shape)], repeat(width, depth))
        self.layers = nn.ModuleList(
            Layer(
                initialized(nn.Linear(fan_in, fan_out), initialization, weight_norm),
                norm(fan_out, channel_dim=1, layer=k),
                make_activation(activation),
                norm_position,
            )
            for k, (fan_in, fan_out) in enumerate(pairwise(widths), start=1)
        )
        self.output = initialized(nn.Linear(width, num_classes), initialization, weight_norm)
        self.output_norm = norm(num_classes, channel_dim=1, layer=depth + 1) if norm_output else None

    def forward(self, images: Tensor) -> Tensor:
        x = images.flatten(1)  # (N, C*H*W)
        for layer in self.layers:
            x = layer(x)  # (N, width)
        logits = self.output(x)  # (N, num_classes)
        return logits if self.output_norm is None else self.output_norm(logits)

    def sites(self) -> list[Site]:
        last = len(self.layers)
        sites = [site for i, layer in enumerate(self.layers) for site in layer.sites(layer_name(i, last))]
        output = layer_name(last, last, "output")
        sites.append(Site(output, "linear", self.output))
        if self.output_norm is not None:
            sites.append(Site(output, "norm", self.output_norm))
        return sites
