"""Figures, tables and one page about the runs of a study. `normexp.report("outputs/runs")` writes the page."""

import sys
import types
from pathlib import Path
from typing import Any


class _Callable(types.ModuleType):
    """Once a file of this package is imported, Python puts the package where the function `normexp.report` was."""

    def __call__(self, folder: str | Path, **options: Any) -> Path:
        from normexp.report.page import report

        return report(folder, **options)


sys.modules[__name__].__class__ = _Callable
