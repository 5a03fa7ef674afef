"""Multi-head self-attention, with optional norms on queries and keys.

Shapes: N samples, T tokens, C = width, h = heads, d = C / h.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.models.transformer_weights import TransformerWeights
from normexp.sites import Site


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
