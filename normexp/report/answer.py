"""What a terminal or a notebook shows of a study: its table, its finding and what limits it, and the address of
TensorBoard."""

import base64
import html
import io
import shlex
import shutil
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.report.finding import cautions, finding
from normexp.report.study import Study, label, open_study
from normexp.report.tables import cell_words, comparison, heads, how_to_read
from normexp.report.tensorboard_means import FOLDER, address, write_mean_runs
from normexp.runs.table import find_runs

MOST_RUNS = 500  # that a sweep reads at its end, in about three seconds


def show_answer(study: Study, console: Console, baseline: str | None = None) -> None:
    """Print the comparison, arms by levels, and under it the report's finding and cautions."""
    names, rows, lines = answer(study, baseline)
    grid = Table(show_edge=False, pad_edge=False)
    for index, name in enumerate(names):
        grid.add_column(Text(name), justify="right" if index else "left", no_wrap=not index)
    for arm, cells in rows:
        grid.add_row(Text(arm), *(Text(words, "bold" if best else "") for words, best in cells))
    console.print()
    console.print(grid, highlight=False)
    for line in (lines[0], "", *lines[1:]):
        console.print(line, highlight=False, markup=False)


Rows = list[tuple[str, list[tuple[str, bool]]]]  # arm, and its cells with whether each is the best


def answer(study: Study, baseline: str | None = None) -> tuple[list[str], Rows, list[str]]:
    """The heads and rows of the comparison, and the sentences below it: how to read it, the finding, the cautions."""
    table = comparison(study, baseline)
    names = [f"norm \\ {label(study.x)}" if study.x else "norm", *heads(study)]
    rows = [
        (str(arm), [(shown(row, study), bool(row["best"])) for _, row in own.iterrows()])
        for arm, own in table.groupby("arm", sort=False)
    ]
    found = finding(study, table)
    return (
        names,
        rows,
        [how_to_read(study, table), found, *cautions(study, found)],
    )


def show_in_notebook(folder: Path) -> str:
    """The same as HTML with the figure of the final values; where the folder is no study, the reason why."""
    from normexp.report.figures.results import final_values
    from normexp.report.style import Style, drawing_style

    try:
        study = open_study(folder)
        names, rows, (how, found, *limits) = answer(study)
    except ValueError as error:
        return f"<p>{html.escape(f'no table: {error}')}</p>"
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in names)]
    for arm, cells in rows:
        values = (f"<b>{text}</b>" if best else text for text, best in cells)
        lines.append(f"<th>{html.escape(arm)}</th>" + "".join(f"<td>{value}</td>" for value in values))
    picture = io.BytesIO()
    with drawing_style():
        for drawing in final_values(study, Style(study.arms)):
            drawing.figure.savefig(picture, format="png", dpi=110)
    content = base64.b64encode(picture.getvalue()).decode()
    image = f'<img alt="{html.escape(found)}" src="data:image/png;base64,{content}">'
    table = "".join(f"<tr>{line}</tr>" for line in lines)
    notes = "<br>".join(map(html.escape, (how, *limits)))
    return f"<p><b>{html.escape(found)}</b></p><table>{table}</table>{image}<p><small>{notes}</small></p>"


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


def shown(row: pd.Series, study: Study) -> str:
    """A cell: mean, interval, the learning rate if it was tuned, and how many runs failed."""
    rate = f"lr {row['lr']:g}" if study.rate_varies and row["runs"] else ""
    return " ".join(filter(None, (cell_words(row, study.metric), rate)))


def look_at(folder: Path, address: str = "") -> list[str]:
    """The lines that start TensorBoard on a folder, and the address that gives each run the color of its norm."""
    lines = [f"look:   tensorboard --logdir {shlex.quote(str(folder))}"]
    return lines + [f"        at http://localhost:6006/{address} (another --port: in place of 6006)"] * bool(
        address
    )
