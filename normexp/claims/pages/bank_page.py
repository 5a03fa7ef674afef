"""The page of the bank: errors of each norm in each setting, and over learning rates."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from normexp.claims.evidence.choose_rates import runs_at
from normexp.claims.evidence.sources import failed_runs, setting_of_runs
from normexp.claims.judge.estimate import SeedMean
from normexp.claims.judge.plain_words import ends
from normexp.claims.pages import markdown_page, markdown_table, save_figure
from normexp.claims.spec.bank import Bank, BankCell
from normexp.report.drawing import new_figure
from normexp.report.style import SETTINGS, Style, percent, plain_log_scale

COLUMNS = 3  # panels side by side


def bank_table(bank: Bank, ledger: pd.DataFrame) -> str:
    """Markdown, one row per setting: the test error of the first norm in %, and what each other norm adds to it in
    points, paired over seeds, with its 95% interval. A failed run counts as a guess."""
    rows = []
    for cell in finished(bank, ledger):
        runs = runs_at(ledger[ledger["cell"] == cell.name], cell, "error", "own")
        outcomes, texts = setting_of_runs(cell, runs, "error").outcomes, list[str]()
        for norm in bank.norms:
            values = 100 * outcomes[norm, ""].guessing(1 - cell.chance).values
            if not texts:
                first, text = values, f"{values.mean():.2f}"
            else:  # `-1.00 (-1.52 to -0.48)`
                mean = SeedMean.of(values - first)
                text = f"{mean.effect:+.2f}{ends(mean.interval(0.95), '+.2f')}"
            lost = outcomes[norm, ""].failed.sum()
            texts.append(text + (f"; {lost} of {len(values)} failed" if lost else ""))
        rows.append((cell.what, *texts))
    return _table(("setting",), bank.norms, rows)


def _table(columns: tuple[str, ...], norms: Sequence[str], rows: list[tuple]) -> str:
    return markdown_table((*columns, *norms), rows, range(len(columns), len(columns) + len(norms)))


def rate_table(bank: Bank, ledger: pd.DataFrame) -> str:
    """Markdown: the learning rate that most seeds chose on validation, and how many seeds chose an edge of the grid."""
    rows = []
    for cell in finished(bank, ledger):
        chosen = runs_at(ledger[ledger["cell"] == cell.name], cell, "error", "own")
        texts = []
        for norm in bank.norms:
            rates = chosen.loc[chosen["norm"] == norm, "lr"]
            edge = int(rates.isin([cell.rates[0], cell.rates[-1]]).sum())
            most = f"{rates.mode().iloc[0]:g}"
            texts.append(f"{most} ({edge} of {len(rates)} at an edge)" if edge else most)
        rows.append((cell.what, f"{cell.rates[0]:g} to {cell.rates[-1]:g}", *texts))
    return _table(("setting", "rates"), bank.norms, rows)


def finished(bank: Bank, ledger: pd.DataFrame) -> list[BankCell]:
    """The cells of which every run is in the ledger."""
    runs, runs_per_rate = ledger["cell"].value_counts(), len(bank.norms) * bank.seeds
    return [cell for cell in bank.cells.values() if runs.get(cell.name, 0) == len(cell.rates) * runs_per_rate]


def draw_rates(bank: Bank, ledger: pd.DataFrame, path: Path) -> None:
    """Test error over learning rate: mean over seeds, one panel per setting. A failed run counts as a guess."""
    cells = finished(bank, ledger)
    style = Style(bank.norms)
    with matplotlib.rc_context(SETTINGS):
        figure, panels = new_figure(-(-len(cells) // COLUMNS), COLUMNS, panel=(2.9, 2.1))
        for cell, axes in zip(cells, panels, strict=False):
            _draw_cell(axes, cell, ledger[ledger["cell"] == cell.name], bank.norms, style)
        for axes in panels[len(cells) :]:
            axes.set_axis_off()
        for axes in panels[::COLUMNS]:
            axes.set_ylabel("test error")
        names = panels[0].get_legend_handles_labels()
        figure.legend(*names, loc="outside upper center", ncols=len(bank.norms))
        save_figure(figure, path, dpi=130)


def _draw_cell(axes: Axes, cell: BankCell, runs: pd.DataFrame, norms: Sequence[str], style: Style) -> None:
    error = np.where(failed_runs(runs, cell), 1 - cell.chance, 1 - runs["test_accuracy"])
    mean = runs.assign(error=error).groupby(["norm", "lr"])["error"].mean()
    for norm in norms:
        xs, ys = mean[norm].index.to_numpy(), mean[norm].to_numpy()
        axes.plot(xs, ys, marker=style.marker[norm], label=norm, **style.line(norm))
    axes.set_xscale("log")
    axes.set_xticks(cell.rates, [f"{rate:g}" for rate in cell.rates])
    plain_log_scale(axes)
    percent(axes.yaxis)
    axes.set_title(cell.what)
    axes.set_xlabel("learning rate")


def page(bank: Bank, ledger: pd.DataFrame, figure: str) -> str:
    """The whole page, as Markdown."""
    done = finished(bank, ledger)
    return markdown_page(
        "bank.md.j2",
        done=done,
        seeds=bank.seeds,
        runs=int(ledger["cell"].isin([cell.name for cell in done]).sum()),
        missing=[cell.what for cell in bank.cells.values() if cell not in done],
        errors=bank_table(bank, ledger),
        rates=rate_table(bank, ledger),
        figure=figure,
    )
