"""normexp: a laboratory for claims about normalization."""

from normexp.api import check, report, sweep, train, verify

__all__ = ["__version__", "check", "report", "sweep", "train", "verify"]
__version__ = "0.2.0"
