"""What has been trained: `normexp runs` lists the studies, `normexp runs outputs/<name>` the runs of one."""

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from normexp.cli.command import command
from normexp.config.process import cut_quietly

if TYPE_CHECKING:
    import pandas as pd

CHOICES = ("model", "norm", "data")


@command()
def main(args: SimpleNamespace) -> None:
    """List what lies below a folder."""
    if len(args.others) > 1:
        raise ValueError(f"{args.others[1]}: one folder at a time; --help explains")
    with cut_quietly():
        show(Path(*args.others or ("outputs",)))


def show(folder: Path) -> None:
    """Print a table of the studies in a folder, or of the runs if it is one study. Raises ValueError with one line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from normexp.runs.table import find_runs, load_summaries, networks

    def loaded(folder: Path) -> "pd.DataFrame":
        runs = load_summaries(folder)
        return runs.assign(model=networks(runs))

    below = sorted(path for path in folder.glob("[!.]*") if path.is_dir()) if folder.is_dir() else [folder]
    studies = {path.name: loaded(path) for path in below if find_runs(path)[0]}
    if not studies:
        loaded(folder)  # says that there is none
    single = all((runs["name"] != name).all() for name, runs in studies.items())
    rows = runs_of(loaded(folder)) if single else [study_of(name, runs) for name, runs in studies.items()]
    table = Table(show_edge=False, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if value[:1].isdigit() and name != "finished" else "left")
    for row in rows:
        table.add_row(*map(Text, row.values()))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table, highlight=False)


def study_of(name: str, runs: "pd.DataFrame") -> dict[str, str]:
    """A study in one row."""
    best = runs.iloc[int(runs["test/accuracy"].fillna(0).argmax())]
    return {
        "study": name, "runs": str(len(runs)), "failed": str(int(runs["failed"].sum())),
        **{group: ", ".join(map(str, runs[group].unique())) for group in CHOICES},
        "best test": f"{best['test/accuracy']:.2%} ({best['norm']})",
        "finished": str(runs["finished"].max())[:16].replace("T", " "),
    }  # fmt: skip


def runs_of(runs: "pd.DataFrame") -> list[dict[str, str]]:
    """The runs of a study, one row each."""
    columns = [*CHOICES, "batch_size", "lr", "seed", "status", "test/accuracy", "run"]
    shown = runs.assign(**{"test/accuracy": runs["test/accuracy"].map("{:.2%}".format)})[columns]
    shown = shown.rename(columns={"test/accuracy": "test", "batch_size": "batch"}).astype(str)
    return [dict(zip(shown.columns, row, strict=True)) for row in shown.itertuples(index=False)]
