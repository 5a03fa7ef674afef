"""Figures, tables and one page about the runs of a study. `normexp.report("outputs/runs")` writes the page."""

import sys
import types
from pathlib import Path
from typing import Any


class Report(types.ModuleType):
    """The package as it is called."""

    def __call__(self, folder: str | Path, **options: Any) -> Path:
        """Write the page of a study; see `normexp.report.page.report`."""
        from normexp.report.page import report

        return report(folder, **options)


sys.modules[__name__].__class__ = Report
