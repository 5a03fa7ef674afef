"""normexp: a laboratory for claims about normalization."""

import importlib
from typing import Any

from normexp.api import check, report, sweep, train, verify

__all__ = ["__version__", "check", "norms", "report", "runs", "sweep", "train", "verify"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """`normexp.runs` and `normexp.norms` on first use, because they import pandas and torch."""
    if name in ("norms", "runs"):
        return importlib.import_module(f"normexp.{name}")
    raise AttributeError(f"module 'normexp' has no attribute '{name}'")
