"""What a run prints: the choices before training, the result after it, and where to look. Loads no torch."""

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.config.checks import declared
from normexp.config.identity import model_label, recipe_overrides
from normexp.config.schema import RECORDED
from normexp.format import pluralize, printable, say
from normexp.runs.summary import MOST_LOSS, REESTIMATED, failed, learning_rate

if TYPE_CHECKING:
    from normexp.training.build import Parts

MOST_GAP = 0.01  # of the accuracy with running statistics from that with statistics estimated anew


def make_console(*, quiet: bool = False) -> Console:
    """A console that is wide if the output is a file, and text in a notebook."""
    if Console().is_terminal:
        return Console(quiet=quiet)
    return Console(quiet=quiet, width=160, force_terminal=False, force_jupyter=False)


def show_choices(parts: "Parts", folder: Path, console: Console) -> None:
    """Print the choices of a run before training."""
    config, choices = parts.config, parts.choices
    steps = config["max_steps"]
    length = pluralize(config["max_epochs"], "epoch") if steps is None else pluralize(steps, "step")
    optimizer = f"{choices['optimizer']} lr {learning_rate(config):g} ({choices['schedule']})"
    names = " · ".join((model_label(config, choices), choices["norm"], choices["data"]))
    changed = recipe_overrides(parts.spec.overrides)
    recipe = f"recipe {choices['recipe']}" + (f", but {', '.join(changed)}" if changed else "")
    precision = str(config["trainer"].get("precision", "32-true"))
    precision = {"32-true": "float32", "64-true": "float64"}.get(precision, precision)
    rows = {
        "run": f"{names} · batch {config['batch_size']} · seed {config['seed']}",
        "training": f"{length} · {optimizer} · {precision} · {recipe}",
        "data": parts.data.describe(),
        "model": f"{sum(p.numel() for p in parts.module.parameters()):,} parameters · {_norms(parts)} · {threads()}",
    }
    swapped = getattr(parts.module.model, "swapped", None)
    if swapped is not None and (notes := swapped.notes()):
        rows["norms"] = "; ".join(notes)
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(Text(name, "bold"), Text(printable(text)))
    console.print(grid)
    # Not in the grid, which would break a path into lines that nobody can copy.
    where = Text.assemble(("folder", "bold"), "    ", printable(str(folder)))
    console.print(where, highlight=False, soft_wrap=True)


def threads() -> str:
    """How many threads train, and how they wait for each other."""
    import torch

    count = torch.get_num_threads()
    passive = count > 1 and os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE"
    counted = pluralize(count, "thread")
    return f"{counted} that wait asleep (OMP_WAIT_POLICY=PASSIVE)" if passive else counted


def _norms(parts: "Parts") -> str:
    """How many places have the norm: `3 × layernorm`."""
    from normexp.models.sites import sites_of

    count = sum(site.kind == "norm" for site in sites_of(parts.module.model))
    return f"{count} × {parts.choices['norm']}" if count else "no norm sites"


def show_result(summary: dict[str, Any], folder: Path, console: Console) -> None:
    """Print the result of a run and its folder."""
    metrics, found = summary["metrics"], summary["convergence"]
    text = declared(summary["config"], "data", "kind") == "text"
    table = Table(title=None, show_edge=False, pad_edge=False)
    columns = ["", "loss", "accuracy", *(["bits per character"] if text else [])]
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for split in ("train", "val", "test"):
        loss, accuracy = metrics.get(f"{split}/loss"), metrics.get(f"{split}/accuracy")
        bits = _number(loss and loss / math.log(2), ".3f")
        table.add_row(*[split, _number(loss, ".4f"), _number(accuracy, ".2%"), bits][: len(columns)])
    console.print()
    console.print(table)
    console.print()
    took = f"{pluralize(summary['steps'], 'step')} in {summary['seconds']:.1f} s of training"
    if summary.get("samples") and summary["seconds"]:
        took += f", {summary['samples'] / summary['seconds']:,.0f} samples a second"
    if found.get("best") is not None:
        best = f"best validation accuracy {found['best']:.2%}, at step {found['best_step']:,}"
        say(console, f"{best}; the table is of the last step")
    if (gap := mode_gap(metrics)) is not None:
        say(console, gap)
    say(console, f"{status_line(summary)} · {took}")
    study = folder if summary["config"].get("run_dir") else folder.parents[1]
    say(console, f"folder: {folder}", *how_to_look(summary["config"], study))


def mode_gap(metrics: Mapping[str, float | None]) -> str | None:
    """A line on running statistics that are not those of the network; None where they are, or nobody knows."""
    found, anew = metrics.get("test/accuracy"), metrics.get(f"test/accuracy_{REESTIMATED}")
    if found is None or anew is None or abs(found - anew) <= MOST_GAP:
        return None
    return (
        f"the running statistics are not those of this network: estimated anew from training samples, they give a test"
        f" accuracy of {anew:.2%} and not {found:.2%}; compare test/accuracy_{REESTIMATED}, or train with precise ones"
        " (docs/norms.md)"
    )


def show_finished(parts: "Parts", summary: dict[str, Any], console: Console) -> dict[str, Any]:
    """Print that a run is finished, its result, and what it recorded otherwise than asked now. Returns its summary."""
    path, found = parts.spec.folder, summary["config"]
    say(console, f"This run is finished: {path}")
    show_result(summary, path, console)
    if other := [key for key in RECORDED if key in found and parts.config[key] != found[key]]:
        say(console, f"finished with other {', '.join(other)}; name=<another> trains it again")
    return summary


def status_line(summary: dict[str, Any]) -> str:
    """One line on how a run ended."""
    if summary["status"] == "completed":
        early = summary.get("stopped_early")
        if failed(summary):
            found, chance = summary["metrics"]["train/loss"], summary["chance_loss"]
            return f"failed: the final training loss is {found:.3g}, above {MOST_LOSS:g} times {chance:.2f} of guessing"
        if odd := [name for name in summary.get("not_finite", ()) if name.endswith("/loss")]:
            split = " and ".join(name.removesuffix("/loss") for name in odd)
            return f"completed, but {' and '.join(odd)} is not finite: look for NaN in the {split} data"
        return f"completed, stopped early at step {summary['steps']:,}" if early else "completed"
    step = summary["convergence"]["divergence_step"]
    return f"diverged at step {step}" if step else "diverged: the final loss is not finite"


def _number(value: float | None, form: str) -> str:
    return "not finite" if value is None or value != value else format(value, form)


def names_of(logger: str | Sequence[str]) -> list[str]:
    """The names in `logger=wandb` or `logger=[tensorboard,wandb]`."""
    return [logger] if isinstance(logger, str) else list(logger)


def mlflow_store(outputs: str | Path) -> str:
    """Where MLflow keeps its runs: MLFLOW_TRACKING_URI, or the file `<outputs>/mlflow.db`."""
    file = Path(outputs).absolute() / "mlflow.db"
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{file.as_posix()}"


def writes_events(config: dict[str, Any]) -> bool:
    """Whether a run writes TensorBoard's events."""
    given = config.get("logger", "tensorboard")  # runs from before there was the key
    return "tensorboard" in names_of(given)


def how_to_look(config: dict[str, Any], folder: str | Path) -> list[str]:
    """The lines `look: ...` on the screen. wandb prints its own address."""
    commands = [f"tensorboard --logdir {shlex.quote(str(folder))}"] if writes_events(config) else []
    if "mlflow" in names_of(config.get("logger", ())):
        commands.append(f"mlflow ui --backend-store-uri {shlex.quote(mlflow_store(config['outputs']))}")
    return [f"look:   {command}" for command in commands]
