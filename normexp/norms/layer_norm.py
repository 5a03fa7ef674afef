"""LayerNorm: statistics over one sample, or over one token; and AdaNorm, whose gain follows its own output."""

from typing import Literal, get_args

from torch import Tensor

from normexp.format import require_choice
from normexp.norms import functional, kernels
from normexp.norms.base import DEFAULT_EPS, Affine, EpsPosition, Norm

Detach = Literal["none", "mean", "std", "both"]


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

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
        per_position: bool = False,
        detach: Detach = "none",
        depth_scaling: bool = False,
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        require_choice("detach", detach, get_args(Detach))
        self.per_position, self.detach, self.depth_scaling = per_position, detach, depth_scaling

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


class AdaNorm(Norm):
    """z = scale * (1 - k y) * y. y is the output of LayerNorm without gain and shift; 1 - k y passes no gradient.

    Shape: as LayerNorm. No gain and no shift are learned.
    Source: Xu et al. 2019, Understanding and Improving Layer Normalization (C is `scale` here). Their code divides by
    n - 1 and adds eps outside the root; set `correction=1` and `eps_position=outside` for that.

    Raises:
        ValueError: another number of features, or `correction=1` with one value to normalize.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = DEFAULT_EPS,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        k: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        super().__init__(
            num_features, channel_dim, layer=layer, eps=eps, correction=correction, eps_position=eps_position
        )
        self.k, self.scale = k, scale

    def normalize(self, x: Tensor) -> Tensor:
        self.check_correction(x.shape[1:].numel())
        group_norm = kernels.group_norm if self.native else functional.group_norm
        # rounded once, at the end
        y = group_norm(functional.at_least_float32(x), 1, None, None, **self.formula)
        return self.scale * (1 - self.k * y.detach()) * y
