"""The transformer between its embedding and its output: initial weights, attention, feed-forward, the three places of
norms, and the stack of blocks that image and text models share.

Shapes: N samples, T tokens, C = width, h = heads, d = C / h.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.arguments import require_at_least, require_choice, require_depth
from normexp.models.layers import Activation, WeightNorm, make_activation
from normexp.models.sites import Site, layer_name

TransformerInitialization = Literal["gpt2", "xavier"]


@dataclass(frozen=True)
class TransformerWeights:
    """Makes initialized linear maps and embeddings. Biases start at 0.

    - ``gpt2`` (Radford et al. 2019): entries N(0, 0.02^2). The residual stream adds up 2 * depth maps, so the standard
      deviation of those maps is divided by sqrt(2 * depth).
    - ``xavier`` (as in Xiong et al. 2020, arXiv:2002.04745): entries N(0, 2 / (fan_in + fan_out)), where queries, keys
      and values count as three maps; tokens N(0, 1).

    Learned positions are N(0, 0.02^2) in both.
    """

    initialization: TransformerInitialization
    depth: int
    weight_norm: WeightNorm | None

    def __post_init__(self):
        require_choice("initialization", self.initialization, get_args(TransformerInitialization))

    def linear(self, fan_in: int, fan_out: int, *, parts: int = 1, to_stream: bool = False) -> nn.Module:
        """A dense layer. ``parts`` is the number of equal maps that its rows hold."""
        module = nn.Linear(fan_in, fan_out)
        if self.initialization == "xavier":
            for part in module.weight.detach().chunk(parts):
                nn.init.xavier_normal_(part)
        else:
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.depth) if to_stream else 0.02)
        nn.init.zeros_(module.bias)
        return module if self.weight_norm is None else self.weight_norm(module)

    def token_embedding(self, vocabulary: int, width: int) -> nn.Embedding:
        module = nn.Embedding(vocabulary, width)
        nn.init.normal_(module.weight, std=1.0 if self.initialization == "xavier" else 0.02)
        return module

    def positions(self, tokens: int, width: int) -> nn.Parameter:
        return nn.Parameter(nn.init.normal_(torch.empty(tokens, width), std=0.02))  # (T, C)


def masked(layer: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
    """What a layer gives, under the mask if there is one. A user's own norm need not know masks."""
    return layer(x) if mask is None else layer(x, mask=mask)


def visible(mask: Tensor, causal: bool) -> Tensor:
    """(N, 1, T, T), True where token i may attend to token j: j is real and, with ``causal``, not after i.

    Padding attends to itself, because a softmax over nothing is nan.
    """
    tokens = mask.shape[1]
    every = torch.ones(tokens, tokens, dtype=torch.bool, device=mask.device)
    seen = mask[:, None, None] & (every.tril() if causal else every)
    return seen | torch.eye(tokens, dtype=torch.bool, device=mask.device)


class Attention(nn.Module):
    """``softmax(Q K^T / sqrt(d)) V`` in each head, then a linear map back to the stream (Vaswani et al. 2017).

    ``qk_norm`` normalizes queries and keys over the d features of each head, with one norm for all heads (Dehghani et
    al. 2023, arXiv:2302.05442). The norm sees each head as a sample, (N*h, T, d).

    Shape: (N, T, C) to (N, T, C). With ``causal``, token t attends only to tokens up to t. ``mask`` (N, T) is True at
    real tokens: no token attends to the others.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        norm: Callable[..., nn.Module],
        weights: TransformerWeights,
        *,
        causal: bool,
        qk_norm: bool,
        dropout: float,
    ):
        super().__init__()
        self.heads, self.causal, self.qk_norm, self.dropout = heads, causal, qk_norm, dropout
        self.qkv = weights.linear(width, 3 * width, parts=3)
        if qk_norm:
            self.norm_key = norm(width // heads, channel_dim=-1)
            self.norm_query = norm(width // heads, channel_dim=-1)
        self.output = weights.linear(width, width, to_stream=True)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))  # (N, T, 3, h, d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()  # each (N, h, T, d)
        if self.qk_norm:
            own = None if mask is None else mask.repeat_interleave(self.heads, 0)  # (N*h, T)
            k = masked(self.norm_key, k.flatten(0, 1), own).unflatten(0, (-1, self.heads))  # by (N*h, T, d)
            q = masked(self.norm_query, q.flatten(0, 1), own).unflatten(0, (-1, self.heads))
        dropout = self.dropout if self.training else 0.0
        seen = None if mask is None else visible(mask, self.causal)
        # (N, h, T, d)
        x = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, dropout_p=dropout, is_causal=self.causal and seen is None
        )
        return self.output(x.transpose(1, 2).flatten(2))  # (N, T, C)

    def sites(self, layer: str) -> list[Site]:
        sites = [Site(layer, "linear", self.qkv)]
        if self.qk_norm:
            sites.append(Site(f"{layer}_key", "norm", self.norm_key))
            sites.append(Site(f"{layer}_query", "norm", self.norm_query))
        return [*sites, Site(f"{layer}_output", "linear", self.output)]


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


class TransformerStack(nn.Module):
    """Learned positions, ``depth`` blocks, and a final norm unless the last block ends in one (``post``).

    Norms inside block k are made with ``layer=k``. The final norm and the norms of queries and keys have no depth and
    keep the default, so LayerNorm Scaling does not scale them, as in its authors' code.

    Shape: embedded tokens (N, T, C) to (N, T, C), for T up to ``tokens``; mask (N, T), True at real tokens.
    """

    def __init__(
        self,
        tokens: int,
        norm: Callable[..., nn.Module],
        weights: TransformerWeights,
        *,
        width: int,
        heads: int,
        mlp_ratio: int,
        activation: Activation,
        norm_position: TransformerNormPosition,
        qk_norm: bool,
        dropout: float,
        causal: bool,
    ):
        super().__init__()
        require_depth(weights.depth)
        require_at_least("width", width, 1)
        require_at_least("heads", heads, 1)
        require_at_least("mlp_ratio", mlp_ratio, 1)
        if width % heads:
            raise ValueError(f"heads={heads}: do not divide width={width}; choose a divisor of the width")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout}: must be at least 0 and below 1")
        require_choice("norm_position", norm_position, get_args(TransformerNormPosition))

        def residual(branch: nn.Module, k: int) -> Residual:
            return Residual(branch, norm, width, norm_position=norm_position, k=k, dropout=dropout)

        self.positions = weights.positions(tokens, width)
        self.dropout = nn.Dropout(dropout)
        self.stream = nn.Identity()
        self.blocks = nn.ModuleList()
        for k in range(1, weights.depth + 1):
            attention = Attention(
                width, heads, norm, weights, causal=causal, qk_norm=qk_norm, dropout=dropout
            )
            mlp = FeedForward(width, mlp_ratio * width, activation, weights)
            self.blocks.append(Block(residual(attention, k), residual(mlp, k)))
        self.final_norm = None if norm_position == "post" else norm(width, channel_dim=-1)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.stream(self.dropout(tokens + self.positions[: tokens.shape[1]]))  # (N, T, C)
        for block in self.blocks:
            x = masked(block, x, mask)
        return x if self.final_norm is None else masked(self.final_norm, x, mask)

    def sites(self) -> list[Site]:
        last = len(self.blocks) + 1
        sites = [Site(layer_name(0, last, "embedding"), "residual", self.stream)]
        for k, block in enumerate(self.blocks, start=1):
            sites += block.sites(layer_name(k, last))
        if self.final_norm is not None:
            sites.append(Site(layer_name(last, last, "output"), "norm", self.final_norm))
        return sites
