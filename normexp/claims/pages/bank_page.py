"""The page of the bank: errors of each norm in each setting, and over learning rates."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from normexp.claims.evidence.choose_rates import tuned_runs
from normexp.claims.evidence.measured import Measured
from normexp.claims.evidence.sources import failed_runs
from normexp.claims.judge.estimate import SeedMean
from normexp.claims.judge.plain_words import ends
from normexp.claims.pages import markdown_page, markdown_table, save_figure
from normexp.claims.spec.bank import Bank
from normexp.report.drawing import new_figure
from normexp.report.style import Style, drawing_style, percent, plain_log_scale

COLUMNS = 3  # panels side by side


def bank_table(norms: Sequence[str], settings: Sequence[Measured]) -> str:
    """Markdown, one row per setting: the test error of the first norm in %, and what each other norm adds to it in
    points, paired over seeds, with its 95% interval. A failed run counts as a guess."""
    rows = []
    for measured in settings:
        first, *others = (100 * measured.setting.values_of(norm) for norm in norms)
        means = [SeedMean.of(values - first) for values in others]
        texts = [f"{first.mean():.2f}"]
        texts += [
            f"{mean.effect:+.2f}{ends(mean.interval(0.95), '+.2f')}" for mean in means
        ]  # `-1.0 (-1.5 to -0.5)`
        failed = [measured.setting.outcomes[norm, ""].failed for norm in norms]
        lost = [f"; {runs.sum()} of {len(runs)} failed" if runs.any() else "" for runs in failed]
        rows.append((measured.cell.what, *map(str.__add__, texts, lost)))
    return _table(("setting",), norms, rows)


def _table(columns: tuple[str, ...], norms: Sequence[str], rows: list[tuple]) -> str:
    return markdown_table((*columns, *norms), rows, range(len(columns), len(columns) + len(norms)))


def rate_table(norms: Sequence[str], settings: Sequence[Measured]) -> str:
    """Markdown: the learning rate that most seeds chose on validation, and how many seeds chose an edge of the grid."""
    rows = []
    for measured in settings:
        chosen, grid = tuned_runs(measured.runs, "error"), sorted(measured.runs["lr"].unique())
        texts = []
        for norm in norms:
            rates = chosen.loc[chosen["norm"] == norm, "lr"]
            edge = int(rates.isin([grid[0], grid[-1]]).sum())
            most = f"{rates.mode().iloc[0]:g}"
            texts.append(f"{most} ({edge} of {len(rates)} at an edge)" if edge else most)
        rows.append((measured.cell.what, f"{grid[0]:g} to {grid[-1]:g}", *texts))
    return _table(("setting", "rates"), norms, rows)


def draw_rates(norms: Sequence[str], settings: Sequence[Measured], path: Path) -> None:
    """Test error over learning rate: mean over seeds, one panel per setting. A failed run counts as a guess."""
    style = Style(norms)
    with drawing_style():
        figure, panels = new_figure(len(settings), COLUMNS, panel=(2.9, 2.1), ylabel="test error")
        for measured, axes in zip(settings, panels, strict=True):
            _draw_setting(axes, measured, norms, style)
        names = panels[0].get_legend_handles_labels()
        figure.legend(*names, loc="outside upper center", ncols=len(norms))
        save_figure(figure, path, dpi=130)


def _draw_setting(axes: Axes, measured: Measured, norms: Sequence[str], style: Style) -> None:
    cell, runs = measured.cell, measured.runs
    error = np.where(failed_runs(runs, cell), 1 - cell.chance, 1 - runs["test_accuracy"])
    mean = runs.assign(error=error).groupby(["norm", "lr"])["error"].mean()
    for norm in norms:
        xs, ys = mean[norm].index.to_numpy(), mean[norm].to_numpy()
        axes.plot(xs, ys, marker=style.marker[norm], label=norm, **style.line(norm))
    axes.set_xscale("log")
    rates = sorted(runs["lr"].unique())
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    plain_log_scale(axes)
    percent(axes.yaxis)
    axes.set_title(cell.what)
    axes.set_xlabel("learning rate")


def page(bank: Bank, settings: Sequence[Measured], figure: str) -> str:
    """The whole page, as Markdown."""
    done = [measured.cell.name for measured in settings]
    return markdown_page(
        "bank.md.j2",
        done=done,
        seeds=bank.seeds,
        runs=sum(len(measured.runs) for measured in settings),
        missing=[cell.what for cell in bank.grid.cells.values() if cell.name not in done],
        errors=bank_table(bank.norms, settings),
        rates=rate_table(bank.norms, settings),
        figure=figure,
    )
