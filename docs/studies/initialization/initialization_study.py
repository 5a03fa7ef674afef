"""Is it the start, not the sigmoid? MLPs whose first weights are scaled, centered, or fitted to a batch of data."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from normexp.models import MLP

Fit = Literal["none", "layers", "units"]
BATCH = 512  # training images that a fit looks at


class CenteredSigmoid(nn.Sigmoid):
    """sigmoid(x) - 1/2, which is tanh(x / 2) / 2."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) - 0.5


class StartedMLP(MLP):
    """An MLP with other first weights.

    Args:
        gain: what the weights between hidden layers are multiplied with; those of the first and the last map with its
            square root. With 4, and `centered`, a network of sigmoids is one of tanh: tanh(z) = 2 sigmoid(2 z) - 1, so
            weights W of the tanh network are 2 W, 4 W, ..., 4 W, 2 W, and the logits are equal.
        centered: sigmoid(x) - 1/2 in place of sigmoid.
        fit: look at a batch once, before training. `layers`: divide each hidden map by the deviation of all its outputs
            (LSUV: Mishkin, Matas 2015, with initialization=orthogonal). `units`: give each unit mean 0 and variance 1
            over the batch, as BatchNorm does at its first step (Salimans, Kingma 2016).
    """

    def __init__(
        self, *args: Any, gain: float = 1.0, centered: bool = False, fit: Fit = "none", **options: Any
    ):
        super().__init__(*args, **options)
        self.fit = fit
        with torch.no_grad():
            for layer in self.layers:
                layer.linear.weight.mul_(gain)
                if centered:
                    layer.activation = CenteredSigmoid()
            self.layers[0].linear.weight.mul_(gain**-0.5)
            self.output.weight.mul_(gain**0.5)

    @torch.no_grad()
    def start_from(self, images: Tensor) -> None:
        """Fit to images, (N, C, H, W), if the network is to be fitted."""
        x = images[:BATCH].flatten(1)
        for layer in self.layers if self.fit != "none" else ():
            z = layer.linear(x)
            if self.fit == "layers":
                layer.linear.weight.div_(z.std())
            else:
                deviation, mean = torch.std_mean(z, 0)
                layer.linear.weight.div_(deviation[:, None])
                layer.linear.bias.sub_(mean).div_(deviation)
            x = layer(x)
