"""Normalization layers. Each is built as `norm(num_features, channel_dim=1, *, layer=1)`; see `base.Norm`."""

from normexp.norms.base import Norm
from normexp.norms.batch_norm import BatchNorm
from normexp.norms.group_norm import GroupNorm
from normexp.norms.identity import Identity
from normexp.norms.instance_norm import InstanceNorm
from normexp.norms.layer_norm import LayerNorm
from normexp.norms.rms_norm import RMSNorm

__all__ = ["BatchNorm", "GroupNorm", "Identity", "InstanceNorm", "LayerNorm", "Norm", "RMSNorm"]
