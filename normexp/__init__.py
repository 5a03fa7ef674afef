"""normexp: a laboratory for claims about normalization."""

__version__ = "0.2.0"
