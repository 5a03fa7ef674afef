"""What has been trained: `normexp report outputs/<name>` is the report of a study, and `normexp runs` lists runs; and
known figures of papers, `normexp figure bn_percentiles`.

pandas, matplotlib and torch take seconds to import, so they are imported only when needed.
"""

import sys
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from normexp.cli.help import columns
from normexp.config.process import typed
from normexp.format import pluralize, tell
from normexp.training.screen import make_console


def report(
    *words: str,
    metric: str = "test/accuracy",
    better: Literal["higher", "lower"] | None = None,
    baseline: str | None = None,
    out: Path | None = None,
    pdf: bool = False,
) -> None:
    """Figures, tables and one self-contained page about the finished runs of a study.

    - `normexp report outputs/NAME`
    - `normexp report outputs/NAME model=mlp norm=none,layernorm`: these runs alone

    Args:
        words: the folder of a study, and filters
        metric: a final value, or the last that runs logged
        better: higher or lower, where the metric's name does not say it
        baseline: arm that differences refer to; default: none, if the study has it
        out: where to write; default: FOLDER/report
        pdf: write the figures as PDF, too
    """
    from normexp.report.finding import show_answer
    from normexp.report.page import write_report
    from normexp.report.study import open_study
    from normexp.report.tensorboard_means import in_path, look_at, write_mean_runs

    filters = [word for word in words if "=" in word and not Path(word).exists()]
    only = dict(word.split("=", 1) for word in filters)
    folders = [Path(word) for word in words if word not in filters]
    if len(folders) != 1:
        raise ValueError("name the folder of a study, such as outputs/runs; --help explains")
    runs_folder, values = folders[0], "-".join(only.values())
    study = open_study(runs_folder, metric, only, better)
    report_folder = out or runs_folder / (f"report-{in_path(values)}" if values else "report")
    page = write_report(study, report_folder, baseline=baseline, pdf=pdf, made_by=typed(sys.argv))
    means = write_mean_runs(study, report_folder if out or values else runs_folder)
    show_answer(study, make_console(), baseline)
    tell(*(look_at(means, study) if means else ()), f"report: {page}")


def runs(folder: Path = Path("outputs"), /) -> None:
    """List the finished runs below a folder, the newest first.

    - `normexp runs`: of all studies
    - `normexp runs outputs/NAME`: of one
    """
    from normexp.runs.table import find_runs, load_summaries

    skipped: list[str] = []
    found = find_runs(folder)
    table = load_summaries(folder, skipped=skipped, found=found)
    ended = table["status"].mask(table["failed"] & (table["status"] == "completed"), "failed")
    absent = "not finite" if "test/accuracy" in table else "not tested"
    shares = table.reindex(columns=["test/accuracy"])["test/accuracy"]
    test = shares.map("{:.2%}".format).mask(shares.isna(), absent)
    table = table.assign(
        test=test.where(ended == "completed", ended), lr=table["lr"].map("{:g}".format),
        finished=table["finished"].fillna("").astype(str).str[:16].str.replace("T", " "),
    )  # fmt: skip
    names = ["run", "data", "lr", "test", "finished"]  # a run's folder says norm, batch size and seed
    console = make_console()
    grid = Table(show_edge=False, pad_edge=False)
    for name in names:
        grid.add_column(name, no_wrap=True, overflow="ignore" if name == "run" else "fold")
    rows = table.sort_values("finished", ascending=False)[names].astype(str)
    others = sum(max(map(len, [name, *rows[name]])) + 3 for name in names[1:])
    if rows["run"].map(len).max() + others > console.width:  # two lines for a run, broken before its own name
        rows["run"] = rows["run"].str.replace("/(?=[^/]*$)", "/\n", regex=True)
    for row in rows.to_numpy():
        grid.add_row(*map(Text, row))
    console.print(grid, highlight=False)
    if found.unfinished:
        skipped.append(f"{pluralize(len(found.unfinished), 'run')} not finished")
    tell(*skipped, file=sys.stderr)


def figure(*names: str, out: Path = Path("outputs/figures"), small: bool = False, pdf: bool = False) -> None:
    """Known figures about normalization by name, as PNG and numbers (JSON), each with one sentence about what is
    seen and one about what its paper shows.

    - `normexp figure bn_percentiles gn_batch_size`
    - `normexp figure all`

    Args:
        names: of figures, or all
        out: a folder
        small: tiny sizes, to see that it works
        pdf: write PDF, too
    """
    from normexp.figures.gallery import chosen, make, write_page

    for entry in chosen(list(names)):
        tell(f"{entry.name}: {entry.title}")
        plot = make(entry, out, small=small, pdf=pdf, say=lambda run: tell(f"  run {run}", file=sys.stderr))
        tell(f"  here:   {plot.seen}", f"  there:  {entry.paper} ({entry.source})")
        tell(f"  {out / entry.name}.png, .json")
    tell(f"page: {write_page(out)} (`normexp figure all` makes every figure)")


def figures_in_lines() -> str:
    """Each name with the question that it answers, for the help."""
    from normexp.figures.gallery import figures

    return "\n".join(["names:", *columns({name: entry.title for name, entry in figures().items()})])
