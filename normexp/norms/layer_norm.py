"""LayerNorm: statistics over one sample, or over one token; and AdaNorm, whose gain follows its own output."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from normexp.norms import functional, kernels
from normexp.norms.base import DEFAULT_EPS, Affine, Norm

Detach = Literal["none", "mean", "std", "both"]


@dataclass(eq=False, repr=False, kw_only=True)
class LayerNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over `channel_dim` and every axis after it.

    Shape: (N, C) over C; (N, C, H, W) over (C, H, W), equal to GroupNorm with one group; (N, T, C) over C.
    Source: Ba, Kiros, Hinton 2016, Layer Normalization; it divides by n (`correction=0`) and has no eps.

    Options:
        per_position: normalize over C alone, at each position of an image (ConvNeXt, Liu et al. 2022).
        detach: pass no gradient through the mean, the std or both: DetachNorm of Xu et al. 2019, Understanding and
            Improving Layer Normalization. Their code divides by n - 1 and adds eps outside the root; set both here.
        depth_scaling: y / sqrt(layer), LayerNorm Scaling of Sun et al. 2025, The Curse of Depth.

    Raises:
        ValueError: another number of features, or `correction=1` with one value to normalize.
    """

    eps: float = DEFAULT_EPS
    affine: Affine = "trained"
    per_position: bool = False
    detach: Detach = "none"
    depth_scaling: bool = False

    def normalize(self, x: Tensor) -> Tensor:
        if self.per_position and x.dim() > 2:
            positions = self.normalize_tokens(x.movedim(1, -1))  # (N, C, H, W) -> (N, H, W, C)
            return positions.movedim(-1, 1)
        self.check_correction(x.shape[1:].numel())
        if self.runs_native():
            return kernels.group_norm(x, 1, *self.gain_and_shift(x), **self.formula)
        options = {**self.formula, "detach": self.detach}
        return functional.group_norm(x, 1, *self.gain_and_shift(x), **options)

    def normalize_tokens(self, x: Tensor) -> Tensor:
        if self.runs_native() and self.eps_position == "inside":
            self.check_correction(self.num_features)
            weight, bias = self.gain_and_shift(x)
            return kernels.layer_norm(x, weight, bias, eps=self.eps, correction=self.correction)
        return super().normalize_tokens(x)

    def runs_native(self) -> bool:
        return self.native and self.detach == "none"

    def gain_and_shift(self, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        weight, bias = self.weight, self.bias
        if self.depth_scaling:
            factor = self.layer**-0.5
            weight = x.new_full((self.num_features,), factor) if weight is None else weight * factor
            bias = None if bias is None else bias * factor
        return weight, bias


@dataclass(eq=False, repr=False, kw_only=True)
class AdaNorm(Norm):
    """z = scale * (1 - k y) * y. y is the output of LayerNorm without gain and shift; 1 - k y passes no gradient.

    Shape: as LayerNorm. No gain and no shift are learned.
    Source: Xu et al. 2019, Understanding and Improving Layer Normalization (C is `scale` here). Their code divides by
    n - 1 and adds eps outside the root; set `correction=1` and `eps_position=outside` for that.

    Raises:
        ValueError: another number of features, or `correction=1` with one value to normalize.
    """

    eps: float = DEFAULT_EPS
    affine: Affine = field(default="none", init=False)
    k: float = 0.1
    scale: float = 1.0

    def normalize(self, x: Tensor) -> Tensor:
        self.check_correction(x.shape[1:].numel())
        group_norm = kernels.group_norm if self.native else functional.group_norm
        # rounded once, at the end
        y = group_norm(functional.at_least_float32(x), 1, None, None, **self.formula)
        return self.scale * (1 - self.k * y.detach()) * y
