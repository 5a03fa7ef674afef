"""RMSNorm and ScaleNorm: division by the root mean square, without centering."""

import torch
from torch import Tensor, nn

from normexp.norms import functional
from normexp.norms.base import Affine, Norm
from normexp.norms.kernels import native_scaling, rms_kernels


class RMSNorm(Norm):
    """y = x / sqrt(mean(x^2) + eps) * weight, over `channel_dim` and every axis after it.

    Shape: as LayerNorm. The paper learns a gain and no shift: `affine=gain`.
    Source: Zhang, Sennrich 2019, Root Mean Square Layer Normalization. `fraction` < 1 is its partial RMSNorm: the mean
    runs over the first `fraction` of the values. The paper has no eps; its code adds eps to the root.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = 1e-5,
        affine: Affine = "gain",
        fraction: float = 1.0,
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine)
        if not 0 < fraction <= 1:
            raise ValueError(
                f"fraction={fraction}: the part of the values that the mean is over; use above 0 to 1"
            )
        self.fraction = fraction

    def normalize(self, x: Tensor) -> Tensor:
        if self.runs_native(x):
            return rms_kernels.rms_norm(x, self.gain(), self.bias, eps=self.eps)
        return functional.rms_norm(x, self.gain(), self.bias, eps=self.eps, fraction=self.fraction)

    def normalize_tokens(self, x: Tensor) -> Tensor:
        if self.runs_native(x):
            return rms_kernels.over_last(x, self.gain(), self.bias, eps=self.eps)
        return super().normalize_tokens(x)

    def normalize_masked(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.fraction != 1:
            return super().normalize_masked(x, mask)
        return functional.masked_rms_norm(x, mask, self.gain(), self.bias, eps=self.eps)

    def runs_native(self, x: Tensor) -> bool:
        return self.native and self.fraction == 1 and native_scaling.usable(x)

    def gain(self) -> Tensor | None:
        return self.weight

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, fraction={self.fraction}"


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
        eps: float = 1e-5,
        affine: Affine = "gain",
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine="none")
        if affine not in ("gain", "frozen"):
            raise ValueError(f"affine={affine}: ScaleNorm has one gain and no shift; use gain or frozen")
        self.affine = affine
        self.weight = nn.Parameter(torch.full((1,), num_features**0.5), requires_grad=affine == "gain")

    def gain(self) -> Tensor:
        return (self.weight * self.num_features**-0.5).expand(self.num_features)  # (1) -> (C)
