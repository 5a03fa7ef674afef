"""Layers without statistics: none at all, gain and shift alone, and bounded functions of each value (DyT)."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normexp.format import require_choice
from normexp.norms import functional
from normexp.norms.base import Affine, Norm


class Identity(Norm):
    """y = x, of any shape."""

    pointwise = True

    def __init__(self, num_features: int, channel_dim: int = 1, *, layer: int = 1) -> None:
        super().__init__(num_features, channel_dim, layer=layer)

    def normalize(self, x: Tensor) -> Tensor:
        return x


class AffineOnly(Norm):
    """y = x * weight + bias, per channel; any shape."""

    pointwise = True

    def __init__(
        self, num_features: int, channel_dim: int = 1, *, layer: int = 1, affine: Affine = "trained"
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, affine=affine)

    def normalize(self, x: Tensor) -> Tensor:
        return functional.affine(x, self.weight, self.bias)


FUNCTIONS = {"tanh": torch.tanh, "erf": torch.erf, "hardtanh": F.hardtanh}
# Width -> where alpha starts in language models: (before attention, elsewhere). 768: the GPT-2 of Derf's code; the
# others: the LLaMA of DyT's code.
BY_WIDTH = {768: (1.0, 1.0), 4096: (0.8, 0.2), 5120: (0.6, 0.15), 8192: (0.2, 0.05)}


class Pointwise(Norm):
    """y = f(alpha x + shift) * weight + bias; any shape. `alpha` is a learned number. So is `shift`, if there is one.

    f = tanh is DyT: Zhu et al. 2025, Transformers without Normalization (alpha starts at 0.5, no shift). f = erf with a
    shift that starts at 0 is Derf: Chen et al. 2025, Stronger Normalization-Free Transformers. f = hardtanh clips at -1
    and 1. There are no statistics: each output depends on one input value.

    Options:
        alpha: where alpha starts; by_width, as the language models of both papers: `BY_WIDTH` at the width nearest in
            ratio. They also multiply the embedding by a learned number, `model.embedding_scale=learned`.
        alpha_attention: where it starts in the norms of attention; null: as elsewhere.
        alpha_final: where it starts in a transformer's last norm; null: as elsewhere.
    """

    pointwise = True

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        affine: Affine = "trained",
        function: Literal["tanh", "erf", "hardtanh"] = "tanh",
        alpha: float | Literal["by_width"] = 0.5,
        shift: bool = False,
        alpha_attention: float | None = None,
        alpha_final: float | None = None,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, affine=affine)
        require_choice("function", function, FUNCTIONS)
        if isinstance(alpha, str):
            require_choice("alpha", alpha, ("by_width",))
            nearest = min(BY_WIDTH, key=lambda width: abs(math.log(num_features / width)))
            attention, alpha = BY_WIDTH[nearest]
            alpha_attention = attention if alpha_attention is None else alpha_attention
        self.function, self.alpha_attention, self.alpha_final = function, alpha_attention, alpha_final
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.shift = nn.Parameter(torch.zeros(1)) if shift else None

    def place(self, site: str) -> None:
        start = self.alpha_attention if "_attention" in site else None
        start = self.alpha_final if site.endswith("_output") else start
        if start is not None:
            nn.init.constant_(self.alpha, start)

    def normalize(self, x: Tensor) -> Tensor:
        scaled = x * self.alpha if self.shift is None else x * self.alpha + self.shift
        return functional.affine(FUNCTIONS[self.function](scaled), self.weight, self.bias)
