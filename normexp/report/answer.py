"""What a terminal shows of a study: its table, its finding and what limits it, and the address of TensorBoard."""

import shlex
import shutil
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.report.finding import cautions, finding
from normexp.report.study import Study, label, open_study
from normexp.report.tables import cell_words, choose_baseline, comparison, heads, how_to_read
from normexp.report.tensorboard_means import FOLDER, address, write_mean_runs
from normexp.runs.table import find_runs

MOST_RUNS = 500  # that a sweep reads at its end, in about three seconds


def show_answer(study: Study, console: Console, baseline: str | None = None) -> None:
    """Print the comparison, arms by levels, and under it the report's finding and cautions."""
    baseline = choose_baseline(study, baseline)
    table = comparison(study, baseline)
    grid = Table(show_edge=False, pad_edge=False)
    for index, head in enumerate([f"norm \\ {label(study.x)}" if study.x else "norm", *heads(study)]):
        grid.add_column(Text(head), justify="right" if index else "left", no_wrap=not index)
    for arm, rows in table.groupby("arm", sort=False):
        grid.add_row(Text(str(arm)), *(shown(row, study) for _, row in rows.iterrows()))
    console.print()
    console.print(grid, highlight=False)
    for line in (how_to_read(study, table), "", finding(study, table, baseline), *cautions(study)):
        console.print(line, highlight=False, markup=False)


def show_folder(folder: Path, console: Console, *, events: bool = True) -> list[str]:
    """Print what the study in a folder says now, and write its means over seeds for TensorBoard there. Returns the
    lines that lead to them. Where the study is large or cannot be read as one, one line says so, and older means go,
    because they would be those of other runs."""
    try:
        if (runs := len(find_runs(folder)[0])) > MOST_RUNS:
            raise ValueError(f"{runs:,} runs take a while to read")
        study = open_study(folder)
        show_answer(study, console)
        if events and (means := write_mean_runs(study, folder)):
            return look_at(means, address(study))
    except (ValueError, OSError) as error:
        console.print(f"\nno table: {error}", highlight=False, markup=False, soft_wrap=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return []


def shown(row: pd.Series, study: Study) -> Text:
    """A cell: mean, interval, the learning rate if it was tuned, and how many runs failed; bold if it is the best."""
    rate = f"lr {row['lr']:g}" if study.rate_varies and row["runs"] else ""
    return Text(" ".join(filter(None, (cell_words(row, study.metric), rate))), "bold" if row["best"] else "")


def look_at(folder: Path, address: str = "") -> list[str]:
    """The lines that start TensorBoard on a folder, and the address that gives each run the color of its norm."""
    lines = [f"look:   tensorboard --logdir {shlex.quote(str(folder))}"]
    return lines + [f"        at http://localhost:6006/{address} (another --port: in place of 6006)"] * bool(
        address
    )
