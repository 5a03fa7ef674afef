"""RMSNorm and ScaleNorm: division by the root mean square, without centering."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from normexp.format import require_choice
from normexp.norms import functional, kernels
from normexp.norms.base import DEFAULT_EPS, Affine, Norm

Gain = Literal["vector", "scalar", "one_plus", "none"]
Rounding = Literal["after_gain", "before_gain"]


class RMSNorm(Norm):
    """y = x / sqrt(mean(x^2) + eps) * gain, over `channel_dim` and every axis after it.

    Shape: as LayerNorm. The paper learns a gain and no shift: `affine=gain`.
    Source: Zhang, Sennrich 2019, Root Mean Square Layer Normalization. `fraction` < 1 is its partial RMSNorm: the mean
    runs over the first `fraction` of the values. The paper has no eps; its code adds eps to the root.

    Options:
        gain: vector, one number a channel; scalar, one number, `weight` of shape (1): SSNorm of Park et al. 2025,
            Outlier-Safe Pre-Training, arXiv:2506.19697; one_plus, 1 + `weight`, where `weight` starts at 0, as in Gemma
            1 to 3 and Qwen3-Next: it is the same function, and weight decay pulls the gain to 1 instead of 0; none.
        rounding: where a half-precision output is rounded. after_gain multiplies in float32 and rounds once, as torch,
            Gemma and gpt-oss do; before_gain rounds x / rms first and the product again, as Llama and Qwen do. With
            float32 and float64 the two are the same.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        affine: Affine = "gain",
        fraction: float = 1.0,
        gain: Gain = "vector",
        rounding: Rounding = "after_gain",
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine)
        if not 0 < fraction <= 1:
            raise ValueError(
                f"fraction={fraction}: the part of the values that the mean is over; use above 0 to 1"
            )
        require_choice("gain", gain, get_args(Gain))
        require_choice("rounding", rounding, get_args(Rounding))
        self.fraction, self.gain, self.rounding = fraction, gain, rounding
        if gain == "none":
            self.weight = None
        elif self.weight is not None:
            start = self.weight.new_zeros(num_features) if gain == "one_plus" else self.weight.detach()
            start = start[:1].clone() if gain == "scalar" else start
            self.weight = nn.Parameter(start, requires_grad=self.weight.requires_grad)

    def normalize(self, x: Tensor) -> Tensor:
        if self.rounds_first(x):
            return self.multiply(self.divide(x, None, None).to(x.dtype))
        return self.divide(x, self.channel_gain(), self.bias)

    def normalize_tokens(self, x: Tensor) -> Tensor:
        if self.runs_native(x) and not self.rounds_first(x):
            return kernels.rms_norm_last(x, self.channel_gain(), self.bias, eps=self.eps)
        return super().normalize_tokens(x)

    def divide(self, x: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
        if self.runs_native(x):
            return kernels.rms_norm(x, gain, bias, eps=self.eps)
        return functional.rms_norm(x, gain, bias, eps=self.eps, fraction=self.fraction)

    def multiply(self, rounded: Tensor) -> Tensor:
        """The gain and the shift on values that were rounded to half precision."""
        return functional.affine(functional.at_least_float32(rounded), self.channel_gain(), self.bias)

    def rounds_first(self, x: Tensor) -> bool:
        return self.rounding == "before_gain" and x.dtype in (torch.float16, torch.bfloat16)

    def runs_native(self, x: Tensor) -> bool:
        return self.native and self.fraction == 1 and kernels.usable(x)

    def channel_gain(self) -> Tensor | None:
        """The gain of each channel, (C)."""
        if self.weight is None or self.gain == "vector":
            return self.weight
        if self.gain == "scalar":
            return self.weight.expand(self.num_features)
        # in bfloat16, 1 + w would lose every |w| below 1/256
        return 1 + functional.at_least_float32(self.weight)


class ScaleNorm(RMSNorm):
    """y = g x / |x|. The one learned number g, `weight`, starts at sqrt(num_features).

    Shape: as LayerNorm. On an image |x| stands for the norm over (C, H, W) divided by sqrt(H W), so the layer starts
    equal to RMSNorm there too.
    Source: Nguyen, Salazar 2019, Transformers without Tears. Their code clamps |x| at eps; here, as in RMSNorm, eps is
    added to the mean square, and `eps=0` is the paper's formula.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        affine: Affine = "gain",
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine="none")
        if affine not in ("gain", "frozen"):
            raise ValueError(f"affine={affine}: ScaleNorm has one gain and no shift; use gain or frozen")
        self.affine = affine
        self.weight = nn.Parameter(torch.full((1,), num_features**0.5), requires_grad=affine == "gain")

    def channel_gain(self) -> Tensor:
        return (self.weight * self.num_features**-0.5).expand(self.num_features)  # (1) -> (C)
