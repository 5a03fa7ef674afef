"""Attention around torch's fused kernel: rotation by position, norms of queries, keys and values, sinks, gates.

Shapes: N samples, T tokens, C = width, h = heads, d = C / h.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.format import require_at_least, require_choice
from normexp.models.layers import TransformerWeights
from normexp.models.sites import Site

QKNormOver = Literal["head", "width"]
QKNormPlace = Literal["before", "after"]
ValueNorm = Literal["none", "gain", "gain_free"]
AttentionGate = Literal["none", "head", "element"]


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
    qk_norm_gain: bool = True
    qk_norm_place: QKNormPlace = "before"
    v_norm: ValueNorm = "none"
    scale: float = 1.0
    sink: bool = False
    gate: AttentionGate = "none"
    sub_norm: bool = False

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
                    f"{width // self.heads} features; choose an even number"
                )
            require_at_least("rope_base", self.rope_base, 1)
        require_choice("qk_norm_over", self.qk_norm_over, get_args(QKNormOver))
        require_choice("qk_norm_place", self.qk_norm_place, get_args(QKNormPlace))
        require_choice("v_norm", self.v_norm, get_args(ValueNorm))
        require_choice("attention_gate", self.gate, get_args(AttentionGate))
        if not self.scale > 0:
            raise ValueError(f"attention_scale={self.scale}: must be above 0; 1.0 is 1 / sqrt(d)")


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


def without_gain(norm: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """The factory of the same norm without gain and shift."""

    def build(size: int, **options) -> nn.Module:
        layer = norm(size, **options)
        if not list(layer.parameters()):
            return layer
        try:
            return norm(size, **options, affine="none")
        except TypeError as error:
            raise ValueError(
                f"qk_norm_gain=false, v_norm=gain_free: {type(layer).__name__} has no option affine; use norm=rmsnorm"
            ) from error

    return build


class Attention(nn.Module):
    """``softmax(Q K^T * scale / sqrt(d)) V`` in each head, then a linear map back to the stream (Vaswani et al. 2017).

    - ``rope_base``: queries and keys are rotated by their position, see ``rotated``.
    - ``qk_norm`` normalizes queries and keys, ``v_norm`` values. Over the d features of each ``head``, with one norm
      for all heads that sees each head as a sample, (N*h, T, d) (Dehghani et al. 2023, arXiv:2302.05442; Qwen3); or
      over all features of the ``width`` (OLMo 2). With or without gain (and shift). Of queries and keys ``before`` the
      rotation (Qwen3, OLMo 2) or ``after`` it (Llama 4, nanochat).
    - ``sink``: a learned logit s_h of each head joins the softmax and its weight is dropped,
      ``exp(l_j) / (exp(s_h) + sum_k exp(l_k))`` (gpt-oss). It starts at 0.
    - ``gate``: the result times ``sigmoid(W x)``, one number a ``head`` or an ``element`` (Qiu et al. 2025,
      arXiv:2505.06708; Qwen3-Next).
    - ``sub_norm``: a norm before the last map, as Sub-LN.

    Shape: (N, T, C) to (N, T, C). With ``causal``, token t attends only to tokens up to t. ``mask`` (N, T) is True at
    real tokens: no token attends to the others.
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
        own = functools.partial(norm, channel_dim=-1)
        plain = without_gain(own)
        self.qkv = weights.linear(width, 3 * width, parts=3, gained=slice(2 * width, None))
        if options.v_norm != "none":
            self.norm_value = (own if options.v_norm == "gain" else plain)(size)
        if options.qk_norm:
            self.norm_key = (own if options.qk_norm_gain else plain)(size)
            self.norm_query = (own if options.qk_norm_gain else plain)(size)
        if options.sink:
            self.sink = nn.Parameter(torch.zeros(options.heads))
        if options.sub_norm:
            self.norm_sub = own(width, layer=k)
        self.output = weights.linear(width, width, stream=k, gained=slice(None))
        if options.gate != "none":
            self.gate = weights.linear(width, options.heads if options.gate == "head" else width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        options = self.options
        qkv = self.qkv(x).unflatten(-1, (3, options.heads, -1))  # (N, T, 3, h, d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()  # each (N, h, T, d)
        after = options.qk_norm_place == "after"
        if options.v_norm != "none":
            v = self.normalized(self.norm_value, v, mask)
        if options.rope_base is not None and after:
            k, q = rotated(k, options.rope_base), rotated(q, options.rope_base)
        if options.qk_norm:
            k = self.normalized(self.norm_key, k, mask)
            q = self.normalized(self.norm_query, q, mask)
        if options.rope_base is not None and not after:
            k, q = rotated(k, options.rope_base), rotated(q, options.rope_base)
        heads = self.attend(q, k, v, mask)  # (N, h, T, d)
        if options.gate != "none":
            opened = self.gate(x).sigmoid().unflatten(-1, (options.heads, -1))  # (N, T, h, 1 or d)
            heads = heads * opened.transpose(1, 2)
        y = heads.transpose(1, 2).flatten(2)  # (N, T, C)
        return self.output(masked(self.norm_sub, y, mask) if options.sub_norm else y)

    def normalized(self, norm: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
        heads = self.options.heads
        if self.options.qk_norm_over == "width":
            y = masked(norm, x.transpose(1, 2).flatten(2), mask)  # by (N, T, C)
            return y.unflatten(-1, (heads, -1)).transpose(1, 2)
        own = None if mask is None else mask.repeat_interleave(heads, 0)  # (N*h, T)
        return masked(norm, x.flatten(0, 1), own).unflatten(0, (-1, heads))  # by (N*h, T, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        options = self.options
        dropout = options.dropout if self.training else 0.0
        seen = None if mask is None else visible(mask, options.causal)
        scale = None if options.scale == 1 and not options.sink else options.scale / math.sqrt(self.head_size)
        if options.sink:
            # One more token with value 0, so that the fused kernels serve. One more feature, 1 in each query, gives its
            # key the logit s_h. It stands first, with a query that is dropped, so that the causal triangle stays one.
            q = F.pad(q, (0, 1, 1, 0), value=1.0)
            first = F.pad((self.sink / scale)[:, None, None], (self.head_size, 0)).expand(len(k), -1, -1, -1)
            k = torch.cat([first.to(k.dtype), F.pad(k, (0, 1))], dim=-2)  # (N, h, 1 + T, d + 1)
            v = F.pad(v, (0, 1, 1, 0))
            seen = None if seen is None else F.pad(seen, (1, 0, 1, 0), value=True)
        x = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, dropout_p=dropout, is_causal=options.causal and seen is None, scale=scale
        )
        return x[..., 1:, :-1] if options.sink else x

    def sites(self, layer: str) -> list[Site]:
        sites = [Site(layer, "linear", self.qkv)]
        if self.options.v_norm != "none":
            sites.append(Site(f"{layer}_V", "norm", self.norm_value))  # a capital sorts before key and query
        if self.options.qk_norm:
            sites.append(Site(f"{layer}_key", "norm", self.norm_key))
            sites.append(Site(f"{layer}_query", "norm", self.norm_query))
        if self.options.sub_norm:
            sites.append(Site(f"{layer}_sub", "norm", self.norm_sub))
        if self.options.gate != "none":
            sites.append(Site(f"{layer}_gate", "linear", self.gate))
        return [*sites, Site(f"{layer}_output", "linear", self.output)]
