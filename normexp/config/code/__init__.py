"""The code that computed a run, and whether today's code is still the same."""

from normexp.config.code.equality import changed, different_code, in_words
from normexp.config.code.parts import checkout, read_ahead, sources

__all__ = ["changed", "checkout", "different_code", "in_words", "read_ahead", "sources"]
