"""Normalization layers. Each is built as `norm(num_features, channel_dim=1, *, layer=1)`; see `base.Norm`."""

from normexp.norms.base import Norm, evaluation_mode
from normexp.norms.batch_norm import BatchNorm, followers, recompute_population_statistics
from normexp.norms.batch_norm_variants import BatchRenorm, NoisyBatchNorm, SyncBatchNorm
from normexp.norms.group_norm import GroupNorm, InstanceNorm
from normexp.norms.layer_norm import AdaNorm, LayerNorm
from normexp.norms.pointwise import AffineOnly, Identity, Pointwise
from normexp.norms.power_norm import PowerNorm
from normexp.norms.rms_norm import RMSNorm, ScaleNorm
from normexp.norms.swap_norms import Original, norm_named, swap
from normexp.norms.swap_table import SwapTable
from normexp.norms.switchable_norm import SwitchableNorm
from normexp.norms.weights import WeightNormalization, WeightStandardization

__all__ = [
    "AdaNorm",
    "AffineOnly",
    "BatchNorm",
    "BatchRenorm",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LayerNorm",
    "NoisyBatchNorm",
    "Norm",
    "Original",
    "Pointwise",
    "PowerNorm",
    "RMSNorm",
    "ScaleNorm",
    "SwapTable",
    "SwitchableNorm",
    "SyncBatchNorm",
    "WeightNormalization",
    "WeightStandardization",
    "evaluation_mode",
    "followers",
    "norm_named",
    "recompute_population_statistics",
    "swap",
]
