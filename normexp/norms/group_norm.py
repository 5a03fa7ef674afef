"""GroupNorm and InstanceNorm: statistics over a group of channels of one sample, or over one channel."""

from torch import Tensor

from normexp.norms import functional, kernels
from normexp.norms.base import DEFAULT_EPS, Affine, EpsPosition, Norm


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
        eps: float = DEFAULT_EPS,
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
        group_norm = kernels.group_norm if self.native else functional.group_norm
        return group_norm(x, self.num_groups, self.weight, self.bias, **self.formula)


class InstanceNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over every axis but batch and channel.

    Shape: (N, C, H, W) over (H, W); (N, T, C) over T, so tokens see each other; (N, C) is refused.
    Source: Ulyanov, Vedaldi, Lempitsky 2016, Instance Normalization. torch's layer has no affine by default.

    Raises:
        ValueError: another number of features, or one value per channel and sample.
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
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        self.mixes_tokens = channel_dim == -1

    def normalize(self, x: Tensor) -> Tensor:
        if x.shape[2:].numel() == 1:
            raise ValueError(
                f"x.shape={tuple(x.shape)}: one value per channel and sample leaves InstanceNorm nothing to "
                "normalize over; use norm=layernorm or norm=groupnorm"
            )
        # GroupNorm with one channel a group. On the CPU it is faster than torch's instance norm, which folds N into C
        # and calls BatchNorm.
        group_norm = kernels.group_norm if self.native else functional.group_norm
        return group_norm(x, self.num_features, self.weight, self.bias, **self.formula)

    def normalize_tokens(self, x: Tensor) -> Tensor:
        return self.normalize(x.movedim(-1, 1)).movedim(1, -1)  # (N, T, C) -> (N, C, T) and back
