"""normexp: a laboratory for claims about normalization."""

import importlib
from typing import TYPE_CHECKING, Any

from normexp.api import report, sweep, train, verify

if TYPE_CHECKING:
    from normexp import norms, runs
    from normexp.check import Check
    from normexp.compare import Compare
    from normexp.monitors.own_loop import watch

    check: Check  # the package, which is called
    compare: Compare

__all__ = [
    "NUMERICS",
    "__version__",
    "check",
    "compare",
    "norms",
    "report",
    "runs",
    "sweep",
    "train",
    "verify",
    "watch",
]
__version__ = "0.2.0"
# Raised when an equal configuration computes other bits. 2: group norms of channels_last images no longer cancel, and a
# CPU takes denormal numbers for zero.
NUMERICS = 2


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """`normexp.check`, `compare`, `norms`, `runs` and `watch` on first use, because they import torch and pandas."""
    if name == "watch":
        return importlib.import_module("normexp.monitors.own_loop").watch
    if name in __all__:
        return importlib.import_module(f"normexp.{name}")
    raise AttributeError(f"module 'normexp' has no attribute '{name}'")
