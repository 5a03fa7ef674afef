"""What a run prints: the choices before training and the result after it, which is shown without loading torch."""

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.config.identity import model_label
from normexp.config.loggers import how_to_look
from normexp.config.recipe import changes
from normexp.config.schema import RECORDED
from normexp.format import pluralize, printable
from normexp.runs.summary import failed, learning_rate, other_numerics

if TYPE_CHECKING:
    from normexp.training.build import Parts

# What changes a training and is no part of most recipes.
BESIDE, SHORTENED = ("label_smoothing", "early_stopping"), ("limit_train_batches", "overfit_batches")


def make_console(*, quiet: bool = False) -> Console:
    """A console that is wide if the output is a file, and text in a notebook."""
    if Console().is_terminal:
        return Console(quiet=quiet)
    return Console(quiet=quiet, width=160, force_terminal=False, force_jupyter=False)


def show_choices(parts: "Parts", folder: Path | None, console: Console) -> None:
    """Print the choices of a run before training."""
    config, choices = parts.config, parts.choices
    steps = config["max_steps"]
    length = pluralize(config["max_epochs"], "epoch") if steps is None else pluralize(steps, "step")
    optimizer = f"{choices['optimizer']} lr {learning_rate(config):g} ({choices['schedule']})"
    names = " · ".join((model_label(config, choices), choices["norm"], choices["data"]))
    changed = changes(parts.spec.overrides)
    recipe = f"recipe {choices['recipe']}" + (f", but {', '.join(changed)}" if changed else "")
    precision = str(config["trainer"].get("precision", "32-true"))
    beside = [f"{key}={config[key]}" for key in BESIDE if config[key]]
    beside += [f"trainer.{key}={config['trainer'][key]}" for key in SHORTENED if config["trainer"].get(key)]
    data_seed = config["data"].get("seed", config["seed"])
    order = [f"data.seed={data_seed}"] if data_seed != config["seed"] else []
    rows = {
        "run": f"{names} · batch {config['batch_size']} · seed {config['seed']}",
        "training": f"{length} · {optimizer} · {' · '.join((precision, recipe, *beside))}",
        "data": " · ".join((parts.data.describe(), *order)),
        "model": f"{sum(p.numel() for p in parts.module.parameters()):,} parameters · {_norms(parts)}",
    }
    swapped = getattr(parts.module.model, "swapped", None)
    if swapped is not None and (notes := swapped.notes()):
        rows["norms"] = "; ".join(notes)
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(Text(name, "bold"), Text(printable(text)))
    console.print(grid, highlight=False)
    # Not in the grid, which would break a path into lines that nobody can copy.
    where = printable(str(folder)) if folder else "none (fast_dev_run saves nothing)"
    console.print(Text.assemble(("folder", "bold"), "    ", where), highlight=False, soft_wrap=True)


def _norms(parts: "Parts") -> str:
    """How many places have the norm, and what of it the command changed: `3 × layernorm (norm.correction=1)`."""
    from normexp.models.sites import sites_of

    norms = [site for site in sites_of(parts.module.model) if site.kind == "norm"]
    if not norms:
        return "no norm sites"
    own = [words for override in parts.spec.overrides if (words := override.lstrip("+~")).startswith("norm.")]
    return f"{len(norms)} × {parts.choices['norm']}" + (f" ({', '.join(own)})" if own else "")


def show_result(summary: dict[str, Any], folder: Path | None, console: Console) -> None:
    """Print the result of a run and its folder."""
    metrics, found = summary["metrics"], summary["convergence"]
    text = "context_length" in summary["config"]["data"]
    table = Table(title=None, show_edge=False, pad_edge=False)
    for column in ("", "loss", "accuracy", *["bits per character"] * text):
        table.add_column(column, justify="left" if not column else "right")
    for split in ("train", "val", "test"):
        loss, accuracy = metrics.get(f"{split}/loss"), metrics.get(f"{split}/accuracy")
        bits = [_number(loss and loss / math.log(2), ".3f")] * text
        table.add_row(split, _number(loss, ".4f"), _number(accuracy, ".2%"), *bits)
    console.print()
    console.print(table, highlight=False)
    console.print()
    took = f"{pluralize(summary['steps'], 'step')} in {summary['seconds']:.1f} s of training"
    if summary.get("samples") and summary["seconds"]:
        took += f", {summary['samples'] / summary['seconds']:,.0f} samples a second"
    for line in (*_best(found, summary["config"]["accuracies"]), f"{status_line(summary)} · {took}"):
        console.print(printable(line), highlight=False, markup=False)
    if folder:
        study = folder if summary["config"].get("run_dir") else folder.parents[1]
        say(console, f"folder: {folder}", *how_to_look(summary["config"], study))


def say(console: Console, *lines: str) -> None:
    """Print lines, with what moves the cursor written out. A narrow terminal wraps them itself, so that what is in them
    can be copied."""
    for line in lines:
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def _best(found: dict[str, Any], targets: Sequence[float]) -> list[str]:
    """The best validation accuracy, and when the highest of the targets was reached."""
    if found.get("best") is None:
        return []
    line = f"best validation accuracy on the way {found['best']:.2%} at step {found['best_step']:,}"
    if reached := [target for target in targets if found.get(f"seconds_to_{target:g}") is not None]:
        last = max(reached)
        line += f"; {100 * last:g}% at step {found[f'steps_to_{last:g}']:,} ({found[f'seconds_to_{last:g}']:.1f} s)"
    return [line]


def show_finished(path: Path, summary: dict[str, Any], config: dict[str, Any], choices: dict[str, str], command: str,
                  console: Console) -> None:  # fmt: skip
    """Print that a run is finished, its result, any measurement that it lacks, and how to train again."""
    say(console, f"This run is finished: {path}")
    show_result(summary, path, console)
    own = [word for word in shlex.split(command) if not word.startswith(("seed=", "run_dir="))]
    words = [*own, f"seed={config['seed'] + 1}"]
    again = f"to train again: {shlex.join(words)}" if command else None
    say(console, *filter(None, (asked_otherwise(config, choices, summary), again)))


def status_line(summary: dict[str, Any]) -> str:
    """One line on how a run ended."""
    if summary["status"] == "completed":
        early = summary.get("stopped_early")
        if failed(summary):
            found, chance = summary["metrics"]["train/loss"], summary["chance_loss"]
            return (
                f"failed: the final training loss is {found:.3g}, above ten times guessing's ({chance:.2f})"
            )
        if odd := [name for name in summary.get("not_finite", ()) if name.endswith("/loss")]:
            split = " and ".join(name.removesuffix("/loss") for name in odd)
            return f"completed, but {' and '.join(odd)} is not finite: look for NaN in the {split} data"
        return f"completed, stopped early at step {summary['steps']:,}" if early else "completed"
    step = summary["convergence"]["divergence_step"]
    return (
        f"diverged: the loss was no longer finite at step {step}"
        if step
        else "diverged: the final loss is not finite"
    )


def _number(value: float | None, form: str) -> str:
    return "not finite" if value is None or value != value else format(value, form)


def asked_otherwise(asked: dict[str, Any], choices: dict[str, str], summary: dict[str, Any]) -> str | None:
    """One line that says what the finished run measured and how to get the other measurements; None if they are the
    same."""
    found = summary["config"]
    differing = [key for key in RECORDED if key in found and _text(asked[key]) != _text(found[key])]
    words = [_words(key, asked, choices, summary) for key in differing]
    words += filter(None, [other_numerics(summary)])
    if not words:
        return None
    remedy = "run_dir" if asked["run_dir"] else "name"
    return f"finished with {', and '.join(words)}; {remedy}=<another> trains it again with what was asked for"


def _words(key: str, config: dict[str, Any], choices: dict[str, str], summary: dict[str, Any]) -> str:
    if key == "monitor":
        return f"monitor={summary['choices'].get(key)}, not {choices.get(key)}, or with other options"
    return f"{key}={_text(summary['config'][key])}, not {_text(config[key])}"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
