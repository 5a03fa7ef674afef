"""Results of calls from Python: a run, a study. Imports nothing heavy."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Run:
    """A finished run. A notebook shows it as a table of its result.

    Attributes:
        folder: of the run; None for `fast_dev_run`.
        summary: the content of `summary.json`.
    """

    folder: Path | None
    summary: dict[str, Any]

    @cached_property
    def metrics(self) -> "pd.DataFrame":
        """All recorded values, one row each: step, epoch, seconds, metric, value and the run's settings."""
        from normexp.runs import load

        return load(self._place())

    @cached_property
    def figures(self) -> "dict[str, Figure]":
        """The figures of the report for which this run has data, by name."""
        return _figures(self._place())

    def _place(self) -> Path:
        if self.folder is None:
            raise ValueError("fast_dev_run=true: saves nothing; leave it out to have metrics and figures")
        return self.folder

    def __repr__(self) -> str:
        found = self.summary["metrics"]
        names = " ".join(self.summary["choices"][group] for group in ("model", "norm", "data"))
        accuracy = "" if found["test/accuracy"] is None else f", test accuracy {found['test/accuracy']:.2%}"
        return f"Run({names}, {self.summary['status']}{accuracy}, {self.folder})"

    def _repr_html_(self) -> str:
        found, lines = self.summary["metrics"], []
        for split in ("train", "val", "test"):
            cells = (_number(found[f"{split}/{name}"]) for name in ("loss", "accuracy"))
            lines.append(f"<tr><th>{split}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
        head = "<tr><th></th><th>loss</th><th>accuracy</th></tr>"
        return f"<table>{head}{''.join(lines)}</table><small>{_escaped(repr(self))}</small>"


@dataclass(frozen=True)
class Study:
    """The finished runs below a folder."""

    folder: Path

    @cached_property
    def summaries(self) -> "pd.DataFrame":
        """One row per run: its settings and final metrics."""
        from normexp.runs import load_summaries

        return load_summaries(self.folder)

    @cached_property
    def metrics(self) -> "pd.DataFrame":
        """All recorded values, one row each."""
        from normexp.runs import load

        return load(self.folder)

    @cached_property
    def figures(self) -> "dict[str, Figure]":
        """The figures of the report, by name."""
        return _figures(self.folder)

    def report(self, **options: Any) -> Path:
        """Write the report, as `normexp.report` does."""
        from normexp.report import write_page

        return write_page(self.folder, **options)


def _figures(folder: Path) -> "dict[str, Figure]":
    import matplotlib as mpl

    from normexp.report.drawing import Drawing
    from normexp.report.figures import FIGURES
    from normexp.report.fonts import families
    from normexp.report.study import open_study
    from normexp.report.style import SETTINGS, Style

    study = open_study(folder)
    with mpl.rc_context({**SETTINGS, "font.family": families()}):
        style = Style(study.arms)
        drawn = [item for makers in FIGURES.values() for make in makers for item in make(study, style)]
    return {item.name: item.figure for item in drawn if isinstance(item, Drawing)}


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
