"""One layer of the plain networks: a linear map, a norm and an activation."""

from typing import Literal, get_args

from torch import Tensor, nn

from normexp.arguments import require_choice
from normexp.sites import Site

NormPosition = Literal["pre_activation", "post_activation"]


class Layer(nn.Module):
    """``act(norm(W x))`` for pre_activation, as in the BatchNorm paper, ``norm(act(W x))`` for post_activation.

    Shape: (N, C, ...) to the shape that ``linear`` gives, (N, C', ...).
    """

    def __init__(
        self, linear: nn.Module, norm: nn.Module, activation: nn.Module, norm_position: NormPosition
    ):
        super().__init__()
        require_choice("norm_position", norm_position, get_args(NormPosition))
        self.linear = linear
        self.norm = norm
        self.activation = activation
        self.norm_position = norm_position

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        if self.norm_position == "pre_activation":
            return self.activation(self.norm(x))
        return self.norm(self.activation(x))

    def sites(self, layer: str) -> list[Site]:
        norm, activation = Site(layer, "norm", self.norm), Site(layer, "activation", self.activation)
        pre = self.norm_position == "pre_activation"
        return [Site(layer, "linear", self.linear), *([norm, activation] if pre else [activation, norm])]
