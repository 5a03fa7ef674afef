"""GroupNorm: statistics over a group of channels of one sample."""

from torch import Tensor

from normexp.norms import functional, masked
from normexp.norms.base import Affine, EpsPosition, Norm
from normexp.norms.kernels import sample_kernels


class GroupNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over C / num_groups channels and every axis after them.

    Shape: (N, C) and (N, T, C) over the features of a group; (N, C, H, W) over (C / num_groups, H, W).
    Source: Wu, He 2018, Group Normalization.

    Raises:
        ValueError: another number of features, a `num_groups` that does not divide it, or `correction=1` with one
            value in a group.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        num_groups: int = 32,
        eps: float = 1e-5,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        if num_groups < 1 or num_features % num_groups:
            raise ValueError(
                f"num_groups={num_groups}: does not divide num_features={num_features}; use a divisor"
            )
        self.num_groups = num_groups

    def normalize(self, x: Tensor) -> Tensor:
        self.check_correction(x.shape[1:].numel() // self.num_groups)
        group_norm = sample_kernels.group_norm if self.native else functional.group_norm
        options = {"eps": self.eps, "correction": self.correction, "eps_position": self.eps_position}
        return group_norm(x, self.num_groups, self.weight, self.bias, **options)

    def normalize_masked(self, x: Tensor, mask: Tensor) -> Tensor:
        options = {"eps": self.eps, "correction": self.correction, "eps_position": self.eps_position}
        return masked.group_norm(x, mask, self.num_groups, self.weight, self.bias, **options)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, num_groups={self.num_groups}"
