"""What a person sees: the choices before training, the result after it."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from normexp.config.recipe import changes
from normexp.config.run_parts import Parts
from normexp.monitors.sites import sites_of
from normexp.training.recipe_hint import hint


def show_choices(parts: Parts, folder: Path | None, console: Console) -> None:
    """Print what is about to be trained."""
    config, choices = parts.config, parts.choices
    steps = config["max_steps"]
    length = f"{config['max_epochs']} epochs" if steps is None else f"{steps} steps"
    optimizer = f"{choices['optimizer']} lr {config['lr']:g} ({choices['schedule']})"
    names = " · ".join(choices[group] for group in ("model", "norm", "data"))
    changed = changes(config, choices)
    recipe = f"recipe {choices['recipe']}" + (f", but {', '.join(changed)}" if changed else "")
    rows = {
        "run": f"{names} · batch {config['batch_size']} · seed {config['seed']}",
        "training": f"{length} · {optimizer} · {config['trainer']['precision']} · {recipe}",
        "data": parts.data.describe(),
        "model": f"{sum(p.numel() for p in parts.module.parameters()):,} parameters · {_norms(parts.module.model)}",
        "folder": str(folder) if folder else "none (fast_dev_run saves nothing)",
    }
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", text)
    console.print(grid, highlight=False)


def _norms(model: torch.nn.Module) -> str:
    norms = [site.module for site in sites_of(model) if site.kind == "norm"]
    return (
        f"{len(norms)} norm sites, the first: {norms[0]!r}".replace("[", "\\[") if norms else "no norm sites"
    )


def show_result(summary: dict[str, Any], folder: Path | None, console: Console) -> None:
    """Print what came of a run and where it is."""
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
        if steps is not None:
            reached.append(f"{target:.4g} at step {steps:,} ({seconds:.1f} s)")
    console.print(
        f"\nvalidation accuracy reached: {'; '.join(reached) or 'none of ' + str(summary['config']['accuracies'])}",
        highlight=False,
    )
    console.print(
        f"{status_line(summary)} · {summary['steps']:,} steps in {summary['seconds']:.1f} s of training",
        highlight=False,
    )
    show_hint([summary], [folder], console)
    if folder:
        outputs = shlex.quote(str(summary["config"]["outputs"]))
        console.print(f"folder: {folder}", highlight=False, markup=False, soft_wrap=True)
        console.print(
            f"look:   tensorboard --logdir {outputs}", highlight=False, markup=False, soft_wrap=True
        )


def show_hint(summaries: list[dict[str, Any]], folders: Sequence[Path | None], console: Console) -> None:
    """The warning of the first run that has one, and of how many it is."""
    found = [words for run in zip(summaries, folders, strict=True) if (words := hint(*run))]
    if found:
        of = f"{len(found)} of {len(summaries)} runs: " if len(summaries) > 1 else ""
        console.print(f"{of}{found[0]}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def status_line(summary: dict[str, Any]) -> str:
    """How a run ended."""
    if summary["status"] == "completed":
        return "completed"
    step = summary["convergence"]["divergence_step"]
    return (
        f"diverged: the loss was no longer finite at step {step}"
        if step
        else "diverged: the final loss is not finite"
    )


def _number(value: float | None, form: str) -> str:
    return "not finite" if value is None or value != value else format(value, form)
