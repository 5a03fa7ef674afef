"""Everything between the embedding and the output, shared by the image and the text transformer."""

from collections.abc import Callable
from typing import get_args

from torch import Tensor, nn

from normexp.arguments import require_at_least, require_choice, require_depth
from normexp.models.activation_functions import Activation
from normexp.models.attention import Attention, masked
from normexp.models.sites import layer_name
from normexp.models.transformer_block import Block, FeedForward, Residual, TransformerNormPosition
from normexp.models.transformer_weights import TransformerWeights
from normexp.sites import Site


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
