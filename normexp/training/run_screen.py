"""What a run prints: the choices before training, the result after it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from normexp.config.loggers import how_to_look
from normexp.config.recipe import changes
from normexp.config.run_parts import Parts
from normexp.counted import counted
from normexp.monitors.sites import sites_of
from normexp.training.recipe_hint import hint


def show_choices(
    parts: Parts,
    folder: Path | None,
    console: Console,
    *,
    seeds: Sequence[int] = (),
    rates: Sequence[float] = (),
) -> None:
    """Print the choices of a run before training. `seeds` and `rates` are those of replicas."""
    config, choices = parts.config, parts.choices
    steps = config["max_steps"]
    length = counted(config["max_epochs"], "epoch") if steps is None else counted(steps, "step")
    rate = " ".join(f"{lr:g}" for lr in rates or [config["lr"]])
    optimizer = f"{choices['optimizer']} lr {rate} ({choices['schedule']})"
    runs = f"seeds {in_short(seeds)}" if len(seeds) > 1 else f"seed {config['seed']}"
    names = " · ".join(choices[group] for group in ("model", "norm", "data"))
    changed = changes(config, choices)
    recipe = f"recipe {choices['recipe']}" + (f", but {', '.join(changed)}" if changed else "")
    rows = {
        "run": f"{names} · batch {config['batch_size']} · {runs}",
        "training": f"{length} · {optimizer} · {config['trainer']['precision']} · {recipe}",
        "data": parts.data.describe(),
        "model": f"{sum(p.numel() for p in parts.module.parameters()):,} parameters · {_norms(parts)}",
    }
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", Text(text))
    console.print(grid, highlight=False)
    # Not in the grid, which would break a path into lines that nobody can copy.
    where = str(folder) if folder else "none (fast_dev_run saves nothing)"
    console.print(Text.assemble(("folder", "bold"), "    ", where), highlight=False, soft_wrap=True)


def _norms(parts: Parts) -> str:
    """How many places have the norm, and what of it the command changed: `3 × layernorm (norm.correction=1)`."""
    norms = [site for site in sites_of(parts.module.model) if site.kind == "norm"]
    if not norms:
        return "no norm sites"
    overrides = yaml.safe_load(parts.files.get("overrides.yaml", "")) or []
    own = [words for override in overrides if (words := override.lstrip("+~")).startswith("norm.")]
    return f"{len(norms)} × {parts.choices['norm']}" + (f" ({', '.join(own)})" if own else "")


def in_short(numbers: Sequence[int]) -> str:
    """`0 … 15` for a range, `0 3 5` for others."""
    first, last = numbers[0], numbers[-1]
    whole = len(numbers) > 2 and list(numbers) == list(range(first, last + 1))
    return f"{first} … {last}" if whole else " ".join(map(str, numbers))


def show_result(summary: dict[str, Any], folder: Path | None, console: Console) -> None:
    """Print the result of a run and its folder."""
    metrics, found = summary["metrics"], summary["convergence"]
    table = Table(title=None, show_edge=False, pad_edge=False)
    for column in ("", "loss", "accuracy"):
        table.add_column(column, justify="left" if not column else "right")
    for split in ("train", "val", "test"):
        loss, accuracy = metrics.get(f"{split}/loss"), metrics.get(f"{split}/accuracy")
        table.add_row(split, _number(loss, ".4f"), _number(accuracy, ".2%"))
    console.print()
    console.print(table, highlight=False)
    reached = []
    for target in summary["config"]["accuracies"]:
        steps, seconds = found.get(f"steps_to_{target:g}"), found.get(f"seconds_to_{target:g}")
        if steps is not None and seconds is not None:
            reached.append(f"{target:.4g} at step {steps:,} ({seconds:.1f} s)")
    console.print(
        f"\nvalidation accuracy reached: {'; '.join(reached) or 'none of ' + str(summary['config']['accuracies'])}",
        highlight=False,
    )
    console.print(
        f"{status_line(summary)} · {counted(summary['steps'], 'step')} in {summary['seconds']:.1f} s of training",
        highlight=False,
    )
    show_hint([summary], [folder], console)
    if folder:
        config = summary["config"]
        for line in (f"folder: {folder}", *how_to_look(config, config["outputs"])):
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_hint(summaries: list[dict[str, Any]], folders: Sequence[Path | None], console: Console) -> None:
    """Print the first hint of the runs, and how many runs have one."""
    found = [words for run in zip(summaries, folders, strict=True) if (words := hint(*run))]
    if found:
        of = f"{len(found)} of {len(summaries)} runs: " if len(summaries) > 1 else ""
        console.print(f"{of}{found[0]}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def status_line(summary: dict[str, Any]) -> str:
    """One line on how a run ended."""
    if summary["status"] == "completed":
        early = summary.get("stopped_early")
        return f"completed, stopped early at step {summary['steps']:,}" if early else "completed"
    step = summary["convergence"]["divergence_step"]
    return (
        f"diverged: the loss was no longer finite at step {step}"
        if step
        else "diverged: the final loss is not finite"
    )


def _number(value: float | None, form: str) -> str:
    return "not finite" if value is None or value != value else format(value, form)
