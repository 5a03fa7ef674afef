"""Find what is wrong with the norms of a network: `normexp.check(module, loader)`, `normexp check my_package:Model`.

The package is called as a function. What needs torch and Lightning is imported when it is first used.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from normexp.check.result import Finding, Result
    from normexp.check.run import CheckNorms

HOMES = {"CheckNorms": "run", "Finding": "result", "Result": "result"}
__all__ = ["CheckNorms", "Finding", "Result"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)


class _Callable(types.ModuleType):
    def __call__(self, module: Any, loader: Any = None, **options: Any) -> "Result":
        """See `normexp.check.run.check`, whose options it takes."""
        from normexp.check.run import check

        return check(module, loader, **options)


sys.modules[__name__].__class__ = _Callable
