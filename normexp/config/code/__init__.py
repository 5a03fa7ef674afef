"""The code that computed a run, and whether today's code is still the same."""

from normexp.config.code.changes import changed, in_words
from normexp.config.code.git import checkout
from normexp.config.code.record import REPLICAS, TRAINING, read_ahead, sources

__all__ = ["REPLICAS", "TRAINING", "changed", "checkout", "in_words", "read_ahead", "sources"]
