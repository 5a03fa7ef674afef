"""The transformer block. Norms stand before its branches, after its sums, or on both sides of its branches.

Shapes: N samples, T tokens, C = width features.
"""

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from normexp.models.activation_functions import Activation, make_activation
from normexp.models.attention import masked
from normexp.models.transformer_weights import TransformerWeights
from normexp.sites import Site

TransformerNormPosition = Literal["pre", "post", "sandwich"]


class FeedForward(nn.Module):
    """``W2 act(W1 x)`` on each token alone. Shape: (N, T, C) to (N, T, C)."""

    def __init__(self, width: int, hidden: int, activation: Activation, weights: TransformerWeights):
        super().__init__()
        self.expand = weights.linear(width, hidden)
        self.activation = make_activation(activation)
        self.output = weights.linear(hidden, width, to_stream=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.output(self.activation(self.expand(x)))  # of each token alone: no mask matters

    def sites(self, layer: str) -> list[Site]:
        return [
            Site(layer, "linear", self.expand),
            Site(layer, "activation", self.activation),
            Site(f"{layer}_output", "linear", self.output),
        ]


class Residual(nn.Module):
    """A branch f, the residual stream x it reads and adds to, and the norm N in one of three places.

    - ``pre``: x + f(N(x)), as GPT-2
    - ``post``: N(x + f(x)), as Vaswani et al. 2017
    - ``sandwich``: x + N'(f(N(x))), the Peri-LN of Kim et al. 2025, arXiv:2502.02732

    Xiong et al. 2020, arXiv:2002.04745, compare the first two. The residual site is the sum; in ``post`` it stands
    before the norm.
    """

    def __init__(
        self,
        branch: nn.Module,
        norm: Callable[..., nn.Module],
        width: int,
        *,
        norm_position: TransformerNormPosition,
        k: int,
        dropout: float,
    ):
        super().__init__()
        self.norm_position = norm_position
        self.norm = norm(width, channel_dim=-1, layer=k)
        self.branch = branch
        if norm_position == "sandwich":
            self.norm_output = norm(width, channel_dim=-1, layer=k)
        self.dropout = nn.Dropout(dropout)
        self.stream = nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.norm_position == "pre":
            return self.stream(x + self.dropout(masked(self.branch, masked(self.norm, x, mask), mask)))
        if self.norm_position == "post":
            return masked(self.norm, self.stream(x + self.dropout(masked(self.branch, x, mask))), mask)
        branch = masked(self.branch, masked(self.norm, x, mask), mask)
        return self.stream(x + self.dropout(masked(self.norm_output, branch, mask)))

    def sites(self, layer: str) -> list[Site]:
        branch, stream = self.branch.sites(layer), Site(layer, "residual", self.stream)
        if self.norm_position == "pre":
            return [Site(layer, "norm", self.norm), *branch, stream]
        if self.norm_position == "post":
            return [*branch, stream, Site(f"{layer}_sum", "norm", self.norm)]
        sandwich = Site(f"{layer}_sandwich", "norm", self.norm_output)
        return [Site(layer, "norm", self.norm), *branch, sandwich, stream]


class Block(nn.Module):
    """Attention, then feed-forward. Shape: (N, T, C) to (N, T, C)."""

    def __init__(self, attention: Residual, mlp: Residual):
        super().__init__()
        self.attention = attention
        self.mlp = mlp

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return masked(self.mlp, masked(self.attention, x, mask), mask)

    def sites(self, layer: str) -> list[Site]:
        return self.attention.sites(f"{layer}_attention") + self.mlp.sites(f"{layer}_mlp")
