"""Optimizers beside torch's, and the groups of parameters that they get."""

from normexp.optimizers.groups import parameter_groups, roles
from normexp.optimizers.muon import Muon

__all__ = ["Muon", "parameter_groups", "roles"]
