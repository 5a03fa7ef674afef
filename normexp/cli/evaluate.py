"""Evaluate saved runs again, without training: `normexp evaluate outputs/<...>`."""

from pathlib import Path
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.folder import allow_from
from normexp.runs import read_summary


@command()
def main(args: SimpleNamespace) -> None:
    """Evaluate the runs that the words name."""
    if not args.others:
        raise ValueError("name the folder of a run; --help explains")
    first, *more = args.others
    overrides = [word for word in more if not Path(word).is_dir()]
    for run in (first, *(word for word in more if Path(word).is_dir())):
        evaluate(Path(run), args.checkpoint, overrides)


def evaluate(run: Path, checkpoint: str, overrides: list[str]) -> None:
    """Print the metrics beside the recorded ones. Raises ValueError with one line if a run cannot be evaluated."""
    weights = run / "checkpoints" / f"{checkpoint}.ckpt"
    summary = read_summary(run) or {}
    if not weights.exists():
        raise ValueError(f"{weights}: not found; name the folder of a run that was trained")
    allow_from(overrides)

    from normexp.config.identity import older, saved_identity
    from normexp.config.run_spec import saved_spec
    from normexp.training.checkpoint import load_checkpoint
    from normexp.training.fit import final_metrics
    from normexp.training.train import build

    parts = build(saved_spec(run, summary, overrides))
    state = load_checkpoint(weights, saved_identity(run))
    try:
        parts.module.load_state_dict(state["state_dict"])
    except RuntimeError as error:
        reason = " ".join(str(error).splitlines()[1].split()) if "\n" in str(error) else str(error)
        changed = (
            f"{' '.join(overrides)}: changes the model; leave it out" if overrides else "train the run again"
        )
        raise ValueError(f"{weights}: does not fit the model ({reason.rstrip('.')}); {changed}") from None
    trainer = parts.make_trainer(logger=False, enable_progress_bar=False, enable_checkpointing=False)
    parts.data.trainer = trainer
    if parts.data.tasks_of_run:  # the trained batches say which task is evaluated
        trainer.fit_loop.load_state_dict(state["loops"]["fit_loop"])
    title = f"{run}, {checkpoint}.ckpt, step {state['global_step']}"
    show(title, final_metrics(parts, trainer)[0], summary.get("metrics", {}))
    if summary and (note := older(summary)):
        print(note)


def show(title: str, metrics: dict[str, float], recorded: dict[str, float | None]) -> None:
    """Print each metric beside what the run recorded."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    print(title)
    table = Table(show_edge=False)
    for column in ("metric", "now", "recorded"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, value in metrics.items():
        old = recorded.get(name)
        table.add_row(Text(name), f"{value:.6f}", "" if old is None else f"{old:.6f}")
    Console().print(table, highlight=False)
