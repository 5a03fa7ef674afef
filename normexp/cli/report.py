"""What has been trained: `normexp report outputs/<name>` is the report of a study, `normexp runs` lists studies, or the
runs of one, and `normexp evaluate outputs/<...>` evaluates saved runs again.

pandas, matplotlib and torch take seconds to import, so they are imported only when needed.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.config.folder import allow_from
from normexp.config.options import GROUPS
from normexp.config.process import cut_quietly, typed

if TYPE_CHECKING:
    import pandas as pd

CHOICES = ("model", "norm", "data")


def report(
    *words: str, metric: str = "test/accuracy", baseline: str | None = None, out: Path | None = None
) -> None:
    """Figures, tables and one self-contained page about the finished runs of a study.

        - `normexp report outputs/NAME`
    - `normexp report A B`: two studies, to pair them run by run
    - `normexp report outputs/NAME model=mlp norm=none,layernorm`: these runs alone

    Args:
        words: folders of studies, and filters
        metric: final value to compare
        baseline: arm that differences refer to; default: none, if the study has it
        out: where to write; default: FOLDER/report
    """
    from normexp.report.finding import look_at, show_answer
    from normexp.report.page import write_report
    from normexp.report.study import open_study
    from normexp.report.tensorboard_means import address, in_path, write_mean_runs

    filters = [word for word in words if "=" in word and not Path(word).exists()]
    only = dict(word.split("=", 1) for word in filters)
    folders = [Path(word) for word in words if word not in filters]
    if not folders:
        raise ValueError("name the folder of a study, such as outputs/runs; --help explains")
    first, *others = folders
    study = open_study(folders if others else first, metric, only)
    values = "-".join([*(folder.name for folder in others), *only.values()])
    place = out or first / (f"report-{in_path(values)}" if values else "report")
    page = write_report(study, place, baseline=baseline, made_by=typed(sys.argv))
    means = write_mean_runs(study, place if out or values else first)
    show_answer(study, Console(width=None if sys.stdout.isatty() else 160), baseline)
    print(*(look_at(means, address(study)) if means else ()), sep="\n")
    print(f"report: {page}")


def runs(folder: Path = Path("outputs"), /) -> None:
    """List studies, or the runs of one.

    - `normexp runs`: the studies below outputs
    - `normexp runs outputs/NAME`: the runs of a study
    """
    with cut_quietly():
        show_runs(folder)


def show_runs(folder: Path) -> None:
    """Print a table of the studies in a folder, or of the runs if it is one study. Raises ValueError with one line."""
    from normexp.runs.columns import networks
    from normexp.runs.table import find_runs, load_summaries

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


def runs_of(runs: "pd.DataFrame") -> list[dict[Any, str]]:
    """The runs of a study, one row each."""
    columns = [*CHOICES, "batch_size", "lr", "seed", "status", "test/accuracy", "run"]
    shown = runs.assign(**{"test/accuracy": runs["test/accuracy"].map("{:.2%}".format)})[columns]
    shown = shown.rename(columns={"test/accuracy": "test", "batch_size": "batch"})
    return shown.astype(str).to_dict("records")


def evaluate(run: str = "", /, *words: str, checkpoint: Literal["last", "best"] = "last") -> None:
    """Evaluate saved runs again, without training.

    - `normexp evaluate outputs/runs/mlp/layernorm-bs64-s0-...`
    - `normexp evaluate RUN data.root=/my/data`: with changed keys

    Args:
        run: the folder of a run
        words: more of them, and overrides
        checkpoint: of the last step, or of the best validation
    """
    if not run:
        raise ValueError("name the folder of a run; --help explains")
    overrides = [word for word in words if not Path(word).is_dir()]
    for word in overrides:
        if word.lstrip("+~").partition("=")[0] in GROUPS:
            raise ValueError(f"{word}: a run keeps its choices; write a key below one, such as data.root=DIR")
    for folder in (run, *(word for word in words if Path(word).is_dir())):
        evaluate_one(Path(folder), checkpoint, overrides)


def evaluate_one(run: Path, checkpoint: str, overrides: list[str]) -> None:
    """Print the metrics beside the recorded ones. Raises ValueError with one line if a run cannot be evaluated."""
    from normexp.runs import read_summary

    weights = run / "checkpoints" / f"{checkpoint}.ckpt"
    summary = read_summary(run) or {}
    if not weights.exists():
        raise ValueError(f"{weights}: not found; name the folder of a run that was trained")
    allow_from(overrides)
    from normexp.config.identity import saved_identity
    from normexp.config.run_spec import saved_spec
    from normexp.training.build import build
    from normexp.training.checkpoint import load_checkpoint
    from normexp.training.result import final_metrics

    parts = build(saved_spec(run, summary, overrides))
    state = load_checkpoint(weights, saved_identity(run))
    try:
        parts.module.load_state_dict(state["state_dict"])
    except RuntimeError as error:
        reason = " ".join(str(error).splitlines()[1].split()) if "\n" in str(error) else str(error)
        changes = f"{' '.join(overrides)}: changes the model; leave it out"
        remedy = changes if overrides else "train the run again"
        raise ValueError(f"{weights}: does not fit the model ({reason.rstrip('.')}); {remedy}") from None
    trainer = parts.make_trainer(enable_checkpointing=False)
    parts.data.trainer = trainer
    if parts.data.tasks_of_run:  # the trained batches say which task is evaluated
        trainer.fit_loop.load_state_dict(state["loops"]["fit_loop"])
    title = f"{run}, {checkpoint}.ckpt, step {state['global_step']}"
    head = "recorded" if checkpoint == "last" else "recorded, last.ckpt"
    show(title, final_metrics(parts, trainer)[0], summary.get("metrics", {}), head)


def show(
    title: str, metrics: dict[str, float], recorded: dict[str, float | None], head: str = "recorded"
) -> None:
    """Print each metric beside what the run recorded."""
    print(title)
    table = Table(show_edge=False)
    for column in ("metric", "now", head):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, value in metrics.items():
        old = recorded.get(name)
        table.add_row(Text(name), f"{value:.6f}", "" if old is None else f"{old:.6f}")
    Console().print(table, highlight=False)
