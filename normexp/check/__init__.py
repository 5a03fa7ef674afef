"""Find what is wrong with the norms of a network: `normexp.check(module, loader)`, `normexp check my_package:Model`.

Files are imported when one of their names is first used, because they need torch and Lightning.
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
    """Once a file of this package is imported, Python puts the package where the function `normexp.check` was."""

    def __call__(self, *args: Any, **options: Any) -> "Result":
        from normexp.check.run import check

        return check(*args, **options)


sys.modules[__name__].__class__ = _Callable
