"""Normalization layers of any library: what they are, over which axes, and whether another can take their place."""

from normexp.norms.layers.layer import NormLayer
from normexp.norms.layers.recognize import BATCH, INSTANCE, is_norm, norm_layer

__all__ = ["BATCH", "INSTANCE", "NormLayer", "is_norm", "norm_layer"]
