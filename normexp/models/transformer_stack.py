"""The transformer between its embedding and its output: feed-forward, the places of norms, and the stack of blocks that
image and text models share. Attention has its own file.

Shapes: N samples, T tokens, C = width.
"""

import functools
import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from normexp.format import require_at_least, require_choice, require_depth
from normexp.models.attention import Attention, AttentionOptions
from normexp.models.layers import Activation, TransformerWeights, make_activation
from normexp.models.sites import Site, layer_name

TransformerNormPosition = Literal["pre", "post", "sandwich", "output", "keel"]
TransformerActivation = Literal[Activation, "swiglu", "geglu"]
EmbeddingScale = Literal["none", "sqrt", "learned"]
GATED: dict[str, Callable[[], nn.Module]] = {
    "swiglu": nn.SiLU,
    "geglu": functools.partial(nn.GELU, approximate="tanh"),  # as Gemma
}


class FeedForward(nn.Module):
    """``W2 act(W1 x)`` on each token alone; gated ``W2 (act(Wg x) * W1 x)`` for swiglu and geglu (Shazeer 2020,
    arXiv:2002.05202), whose act is SiLU and GELU. The hidden width is ``round(ratio * width)``.

    Shape: (N, T, C) to (N, T, C).
    """

    def __init__(
        self,
        width: int,
        ratio: float,
        activation: TransformerActivation,
        weights: TransformerWeights,
        *,
        k: int,
    ):
        super().__init__()
        hidden = round(ratio * width)
        self.gated = activation in GATED
        maps = 2 if self.gated else 1
        # gated: rows of Wg, then of W1
        self.expand = weights.linear(width, maps * hidden, parts=maps)
        self.activation = GATED[activation]() if self.gated else make_activation(activation)
        self.output = weights.linear(hidden, width, stream=k)

    def forward(self, x: Tensor) -> Tensor:
        x = self.expand(x)
        if self.gated:
            gate, value = x.chunk(2, dim=-1)
            return self.output(self.activation(gate) * value)
        return self.output(self.activation(x))

    def sites(self, layer: str) -> list[Site]:
        return [
            Site(layer, "linear", self.expand),
            Site(layer, "activation", self.activation),
            Site(f"{layer}_output", "linear", self.output),
        ]


class Residual(nn.Module):
    """A branch f, the residual stream x it reads and adds to, and the norm N in one of five places.

    - ``pre``: x + f(N(x)), as GPT-2
    - ``post``: N(x + f(x)), as Vaswani et al. 2017
    - ``sandwich``: x + N'(f(N(x))), the Peri-LN of Kim et al. 2025, arXiv:2502.02732; Gemma 2 and 3
    - ``output``: x + N(f(x)), as OLMo 2
    - ``keel``: N'(a x + f(N(x))), a the number 2 * depth of branches of the network: Chen, Wei 2026, arXiv:2601.19895

    Xiong et al. 2020, arXiv:2002.04745, compare the first two. The residual site is the sum; in ``post`` and ``keel``
    it stands before the norm. ``depth_scaling`` divides N by sqrt(k) in block k, from 1: LayerNorm Scaling (Sun et al.
    2025, arXiv:2502.05795) for ``pre``, the same for ``output``, under any norm.
    """

    def __init__(
        self,
        branch: nn.Module,
        norm: Callable[..., nn.Module],
        width: int,
        *,
        norm_position: TransformerNormPosition,
        k: int,
        depth: int,
        depth_scaling: bool,
        dropout: float,
    ):
        super().__init__()
        self.norm_position, self.scaled = norm_position, k**-0.5 if depth_scaling else None
        self.share = 2 * depth if norm_position == "keel" else None  # of the stream in the sum
        self.norm = norm(width, channel_dim=-1, layer=k)
        self.branch = branch
        if norm_position in ("sandwich", "keel"):
            self.norm_output = norm(width, channel_dim=-1, layer=k)
        self.dropout = nn.Dropout(dropout)
        self.summand = nn.Identity()  # what the branch adds
        self.stream = nn.Identity()

    @property
    def placed_norms(self) -> tuple[nn.Module | None, nn.Module | None, nn.Module | None]:
        """The norms of the branch's input, of its output, and of the sum."""
        one, two = self.norm, getattr(self, "norm_output", None)
        return {
            "pre": (one, None, None),
            "post": (None, None, one),
            "sandwich": (one, two, None),
            "output": (None, one, None),
            "keel": (one, None, two),
        }[self.norm_position]

    def forward(self, x: Tensor) -> Tensor:
        before, after, of_sum = self.placed_norms
        y = self.branch(self.normalized(before, x))
        y = self.summand(self.dropout(self.normalized(after, y)))
        total = self.stream(x + y if self.share is None else self.share * x + y)
        return total if of_sum is None else of_sum(total)

    def normalized(self, norm: nn.Module | None, x: Tensor) -> Tensor:
        if norm is None:
            return x
        y = norm(x)
        return y if self.scaled is None else y * self.scaled

    def sites(self, layer: str) -> list[Site]:
        before, after, of_sum = self.placed_norms
        sites = [Site(layer, "norm", before)] if before is not None else []
        sites += self.branch.sites(layer)
        if after is not None:
            sites.append(Site(f"{layer}_{'sandwich' if before is not None else 'result'}", "norm", after))
        sites += [Site(layer, "branch", self.summand), Site(layer, "residual", self.stream)]
        return sites if of_sum is None else [*sites, Site(f"{layer}_sum", "norm", of_sum)]


class Block(nn.Module):
    """Attention, then feed-forward. Shape: (N, T, C) to (N, T, C)."""

    def __init__(self, attention: Residual, mlp: Residual):
        super().__init__()
        self.attention = attention
        self.mlp = mlp

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.attention(x))

    def sites(self, layer: str) -> list[Site]:
        return self.attention.sites(f"{layer}_attention") + self.mlp.sites(f"{layer}_mlp")


class TransformerStack(nn.Module):
    """Embedded tokens, scaled, with learned positions, normalized; ``depth`` blocks; and a final norm.

    - ``learned_positions``: added to the tokens.
    - ``embedding_scale``: ``sqrt`` multiplies the tokens by sqrt(C) before positions are added (Vaswani et al. 2017;
      Gemma); ``learned`` multiplies the sum by a number that starts at sqrt(C) (the recipe of DyT and Derf for text).
    - ``embedding_norm``: normalizes the embedded tokens (BLOOM; nanochat).
    - ``final_norm``: None is one unless each block ends in a norm (``post``, ``keel``).

    Norms inside block k are made with ``layer=k``. Embedding and final norm and the norms of queries and keys have
     no depth and keep the default, so LayerNorm Scaling does not scale them, as in its authors' code.

    Shape: embedded tokens (N, T, C) to (N, T, C), for T up to ``tokens``.
    """

    def __init__(
        self,
        tokens: int,
        norm: Callable[..., nn.Module],
        weights: TransformerWeights,
        attention: AttentionOptions,
        *,
        width: int,
        mlp_ratio: float,
        activation: TransformerActivation,
        norm_position: TransformerNormPosition,
        depth_scaling: bool,
        embedding_norm: bool,
        final_norm: bool | None,
        embedding_scale: EmbeddingScale = "none",
        learned_positions: bool = True,
    ):
        super().__init__()
        require_depth(weights.depth)
        require_at_least("width", width, 1)
        attention.check(width)
        require_at_least("mlp_ratio", mlp_ratio, 1)
        require_choice("activation", activation, get_args(TransformerActivation))
        require_choice("embedding_scale", embedding_scale, get_args(EmbeddingScale))
        if not 0 <= attention.dropout < 1:
            raise ValueError(f"dropout={attention.dropout}: must be at least 0 and below 1")
        require_choice("norm_position", norm_position, get_args(TransformerNormPosition))
        if depth_scaling and norm_position not in ("pre", "output"):
            raise ValueError(
                f"depth_scaling=true: has no form for norm_position={norm_position}; use pre or output"
            )

        def residual(branch: nn.Module, k: int) -> Residual:
            return Residual(
                branch, norm, width, norm_position=norm_position, k=k, depth=weights.depth,
                depth_scaling=depth_scaling, dropout=attention.dropout,
            )  # fmt: skip

        self.positions = weights.positions(tokens, width) if learned_positions else None  # (T, C)
        self.factor = math.sqrt(width) if embedding_scale == "sqrt" else None
        self.scale = (
            nn.Parameter(torch.full((1,), math.sqrt(width))) if embedding_scale == "learned" else None
        )
        self.embedding_norm = norm(width, channel_dim=-1) if embedding_norm else None
        self.dropout = nn.Dropout(attention.dropout)
        self.stream = nn.Identity()
        self.blocks = nn.ModuleList()
        for k in range(1, weights.depth + 1):
            mixing = residual(Attention(width, norm, weights, attention, k=k), k)
            mlp = FeedForward(width, mlp_ratio, activation, weights, k=k)
            self.blocks.append(Block(mixing, residual(mlp, k)))
        if final_norm is None:
            final_norm = norm_position not in ("post", "keel")
        self.final_norm = norm(width, channel_dim=-1) if final_norm else None
        for site in self.sites():
            if site.kind == "norm" and hasattr(site.module, "place"):
                site.module.place(site.layer)

    def forward(self, tokens: Tensor) -> Tensor:
        x = tokens if self.factor is None else tokens * self.factor  # (N, T, C)
        x = x if self.positions is None else x + self.positions[: tokens.shape[1]]
        x = x if self.scale is None else x * self.scale
        x = x if self.embedding_norm is None else self.embedding_norm(x)
        x = self.stream(self.dropout(x))
        for block in self.blocks:
            x = block(x)
        return x if self.final_norm is None else self.final_norm(x)

    def sites(self) -> list[Site]:
        last = len(self.blocks) + 1
        first = layer_name(0, last, "embedding")
        sites = [Site(first, "norm", self.embedding_norm)] if self.embedding_norm is not None else []
        sites.append(Site(first, "residual", self.stream))
        for k, block in enumerate(self.blocks, start=1):
            sites += block.sites(layer_name(k, last))
        if self.final_norm is not None:
            sites.append(Site(layer_name(last, last, "output"), "norm", self.final_norm))
        return sites
