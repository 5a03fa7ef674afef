"""normexp: a laboratory for claims about normalization."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normexp import norms, runs
    from normexp.api import sweep, train, verify
    from normexp.check import Check
    from normexp.compare import Compare
    from normexp.monitors.own_loop import watch
    from normexp.report import Report

    check: Check  # the package, which is called
    compare: Compare
    report: Report

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
HOMES = {
    **dict.fromkeys(("sweep", "train", "verify"), "normexp.api"),
    "watch": "normexp.monitors.own_loop",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Each public name on first use: some import torch and pandas, and a command must answer Ctrl-C at once."""
    if home := HOMES.get(name):
        return getattr(importlib.import_module(home), name)
    if name in __all__:
        return importlib.import_module(f"normexp.{name}")
    raise AttributeError(f"module 'normexp' has no attribute '{name}'")
