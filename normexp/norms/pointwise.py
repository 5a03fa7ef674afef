"""Layers without statistics: none at all, gain and shift alone, and bounded functions of each value (DyT)."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normexp.arguments import require_choice
from normexp.norms import functional
from normexp.norms.base import Affine, Norm


class Identity(Norm):
    """y = x, of any shape."""

    def __init__(self, num_features: int, channel_dim: int = 1, *, layer: int = 1) -> None:
        super().__init__(num_features, channel_dim, layer=layer)

    def positions_apart(self, x: Tensor) -> bool:
        return True

    def normalize(self, x: Tensor) -> Tensor:
        return x


class AffineOnly(Norm):
    """y = x * weight + bias, per channel; any shape."""

    def __init__(
        self, num_features: int, channel_dim: int = 1, *, layer: int = 1, affine: Affine = "trained"
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, affine=affine)

    def positions_apart(self, x: Tensor) -> bool:
        return True

    def normalize(self, x: Tensor) -> Tensor:
        return functional.affine(x, self.weight, self.bias)


FUNCTIONS = {"tanh": torch.tanh, "erf": torch.erf, "hardtanh": F.hardtanh}


class Pointwise(Norm):
    """y = f(alpha x + shift) * weight + bias; any shape. `alpha` is a learned number. So is `shift`, if there is one.

    f = tanh is DyT: Zhu et al. 2025, Transformers without Normalization (alpha starts at 0.5, no shift). f = erf with a
    shift that starts at 0 is Derf: Chen et al. 2025, Stronger Normalization-Free Transformers. f = hardtanh clips at -1
    and 1. There are no statistics: each output depends on one input value.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        affine: Affine = "trained",
        function: Literal["tanh", "erf", "hardtanh"] = "tanh",
        alpha: float = 0.5,
        shift: bool = False,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, affine=affine)
        require_choice("function", function, FUNCTIONS)
        self.function = function
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.shift = nn.Parameter(torch.zeros(1)) if shift else None

    def positions_apart(self, x: Tensor) -> bool:
        return True

    def normalize(self, x: Tensor) -> Tensor:
        scaled = x * self.alpha if self.shift is None else x * self.alpha + self.shift
        return functional.affine(FUNCTIONS[self.function](scaled), self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, function={self.function}"
