"""Normalization layers. Each is built as `norm(num_features, channel_dim=1, *, layer=1)`; see `base.Norm`."""

from normexp.norms.ada_norm import AdaNorm
from normexp.norms.affine_only import AffineOnly
from normexp.norms.base import Norm
from normexp.norms.batch_norm import BatchNorm
from normexp.norms.batch_renorm import BatchRenorm
from normexp.norms.by_name import norm_named
from normexp.norms.group_norm import GroupNorm
from normexp.norms.instance_norm import InstanceNorm
from normexp.norms.layer_norm import LayerNorm
from normexp.norms.no_norm import Identity
from normexp.norms.noisy_batch_norm import NoisyBatchNorm
from normexp.norms.pointwise import Pointwise
from normexp.norms.power_norm import PowerNorm
from normexp.norms.precise_statistics import recompute_population_statistics
from normexp.norms.rms_norm import RMSNorm, ScaleNorm
from normexp.norms.swap_norms import swap
from normexp.norms.swap_table import SwapTable
from normexp.norms.switchable_norm import SwitchableNorm
from normexp.norms.sync_batch_norm import SyncBatchNorm
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
    "Pointwise",
    "PowerNorm",
    "RMSNorm",
    "ScaleNorm",
    "SwapTable",
    "SwitchableNorm",
    "SyncBatchNorm",
    "WeightNormalization",
    "WeightStandardization",
    "norm_named",
    "recompute_population_statistics",
    "swap",
]
