"""Figures, tables and one page about the runs of a study. `normexp.report("outputs/runs")` writes the page."""

import shlex
import sys
import types
from pathlib import Path
from typing import Any


def write_page(
    folder: str | Path,
    *,
    metric: str = "test/accuracy",
    baseline: str | None = None,
    out: str | Path | None = None,
) -> Path:
    """Write the page of the runs below a folder; returns its path. Raises ValueError where there is none to write."""
    from normexp.report.page import write_report
    from normexp.report.study import open_study

    place = Path(out) if out else Path(folder) / "report"
    made_by = f"normexp report {shlex.quote(str(folder))}"
    return write_report(open_study(folder, metric), place, baseline=baseline, made_by=made_by)


class _Callable(types.ModuleType):
    """Once a file of this package is imported, Python puts the package where the function `normexp.report` was."""

    def __call__(self, folder: str | Path, **options: Any) -> Path:
        return write_page(folder, **options)


sys.modules[__name__].__class__ = _Callable
