"""Attention around torch's fused kernel: rotation by position, norms of queries and keys, sinks.

Shapes: N samples, T tokens, C = width, h = heads, d = C / h.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.format import pluralize, require_at_least, require_choice
from normexp.models.layers import TransformerWeights
from normexp.models.sites import Site

QKNormOver = Literal["head", "width"]
QKNormPlace = Literal["before", "after"]


@dataclass(frozen=True)
class AttentionOptions:
    """What the attention of every block shares; see ``Attention``.

    Attributes:
        rope_base: of the rotation of queries and keys; None rotates nothing.
        scale: factor on 1 / sqrt(d).
    """

    heads: int
    causal: bool
    dropout: float = 0.0
    rope_base: float | None = None
    qk_norm: bool = False
    qk_norm_over: QKNormOver = "head"
    qk_norm_place: QKNormPlace = "before"
    scale: float = 1.0
    sink: bool = False

    def check(self, width: int) -> None:
        """Raise a ValueError for options that no attention of this width has."""
        require_at_least("heads", self.heads, 1)
        if width % self.heads:
            raise ValueError(
                f"heads={self.heads}: do not divide width={width}; choose a divisor of the width"
            )
        if self.rope_base is not None:
            if width // self.heads % 2:
                raise ValueError(
                    f"position=rope: rotates pairs, and a head of width={width}, heads={self.heads} has "
                    f"{pluralize(width // self.heads, 'feature')}; choose an even number"
                )
            require_at_least("rope_base", self.rope_base, 1)
        require_choice("qk_norm_over", self.qk_norm_over, get_args(QKNormOver))
        require_choice("qk_norm_place", self.qk_norm_place, get_args(QKNormPlace))
        if not self.scale > 0:
            raise ValueError(f"attention_scale={self.scale}: must be above 0; 1.0 is 1 / sqrt(d)")


def rotated(x: Tensor, base: float) -> Tensor:
    """Rotary position embedding (Su et al. 2021, arXiv:2104.09864) of x (..., T, d).

    At position t = 0, 1, ... features i and i + d/2 are a point of the plane, turned by the angle t * base^(-2i/d), for
    i below d/2. So a product of a query and a key depends on the distance of their positions. transformers pairs the
    features in this way; the paper pairs 2i and 2i + 1, the same function of other initial weights.
    """
    size = x.shape[-1]
    # Angles in half precision would be wrong by whole turns.
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    speeds = base ** (torch.arange(0, size, 2, device=x.device, dtype=exact) / -size)  # (d/2)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=exact)[:, None] * speeds  # (T, d/2)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


class Attention(nn.Module):
    """``softmax(Q K^T * scale / sqrt(d)) V`` in each head, then a linear map back to the stream (Vaswani et al. 2017).

    - ``rope_base``: queries and keys are rotated by their position, see ``rotated``.
    - ``qk_norm`` normalizes queries and keys: over the d features of each ``head``, with one norm for all heads that
      sees each head as a sample, (N*h, T, d) (Dehghani et al. 2023, arXiv:2302.05442; Qwen3); or over all features of
      the ``width`` (OLMo 2); ``before`` the rotation (Qwen3, OLMo 2) or ``after`` it (Llama 4, nanochat).
    - ``sink``: a learned logit s_h of each head joins the softmax and its weight is dropped,
      ``exp(l_j) / (exp(s_h) + sum_k exp(l_k))`` (gpt-oss). It starts at 0.

    Shape: (N, T, C) to (N, T, C). With ``causal``, token t attends only to tokens up to t.
    """

    def __init__(
        self,
        width: int,
        norm: Callable[..., nn.Module],
        weights: TransformerWeights,
        options: AttentionOptions,
        *,
        k: int = 1,
    ):
        super().__init__()
        self.options, self.head_size = options, width // options.heads
        size = self.head_size if options.qk_norm_over == "head" else width
        self.qkv = weights.linear(width, 3 * width, parts=3)
        if options.qk_norm:
            self.norm_key = norm(size, channel_dim=-1)
            self.norm_query = norm(size, channel_dim=-1)
        if options.sink:
            self.sink = nn.Parameter(torch.zeros(options.heads))
        self.output = weights.linear(width, width, stream=k)

    def forward(self, x: Tensor) -> Tensor:
        options = self.options
        qkv = self.qkv(x).unflatten(-1, (3, options.heads, -1))  # (N, T, 3, h, d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()  # each (N, h, T, d)
        after = options.qk_norm_place == "after"
        if options.rope_base is not None and after:
            k, q = rotated(k, options.rope_base), rotated(q, options.rope_base)
        if options.qk_norm:
            k, q = self.normalized(self.norm_key, k), self.normalized(self.norm_query, q)
        if options.rope_base is not None and not after:
            k, q = rotated(k, options.rope_base), rotated(q, options.rope_base)
        heads = self.attend(q, k, v)  # (N, h, T, d)
        return self.output(heads.transpose(1, 2).flatten(2))  # by (N, T, C)

    def normalized(self, norm: nn.Module, x: Tensor) -> Tensor:
        heads = self.options.heads
        if self.options.qk_norm_over == "width":
            y = norm(x.transpose(1, 2).flatten(2))  # by (N, T, C)
            return y.unflatten(-1, (heads, -1)).transpose(1, 2)
        return norm(x.flatten(0, 1)).unflatten(0, (-1, heads))  # by (N*h, T, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        options = self.options
        dropout = options.dropout if self.training else 0.0
        scale = None if options.scale == 1 and not options.sink else options.scale / math.sqrt(self.head_size)
        if options.sink:
            # One more token with value 0, so that the fused kernels serve. One more feature, 1 in each query, gives its
            # key the logit s_h. It stands first, with a query that is dropped, so that the causal triangle stays one.
            q = F.pad(q, (0, 1, 1, 0), value=1.0)
            first = F.pad((self.sink / scale)[:, None, None], (self.head_size, 0)).expand(len(k), -1, -1, -1)
            k = torch.cat([first.to(k.dtype), F.pad(k, (0, 1))], dim=-2)  # (N, h, 1 + T, d + 1)
            v = F.pad(v, (0, 1, 1, 0))
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=options.causal, scale=scale)
        return x[..., 1:, :-1] if options.sink else x

    def sites(self, layer: str) -> list[Site]:
        sites = [Site(layer, "linear", self.qkv)]
        if self.options.qk_norm:
            sites.append(Site(f"{layer}_key", "norm", self.norm_key))
            sites.append(Site(f"{layer}_query", "norm", self.norm_query))
        return [*sites, Site(f"{layer}_output", "linear", self.output)]
