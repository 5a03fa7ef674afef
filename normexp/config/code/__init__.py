"""Which code computed a run, and whether it is still the code at hand."""

from normexp.config.code.changes import changed, in_words
from normexp.config.code.git import checkout
from normexp.config.code.record import REPLICAS, TRAINING, sources

__all__ = ["REPLICAS", "TRAINING", "changed", "checkout", "in_words", "sources"]
