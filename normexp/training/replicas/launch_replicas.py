"""From the parts of several replicas to finished run folders: together where that is possible, else one by one."""

import contextlib
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from normexp.config.run_parts import Parts
from normexp.runs import finished_summary
from normexp.training.checkpoint import load_checkpoint
from normexp.training.finished_run_hint import asked_otherwise
from normexp.training.folder import RunFolder
from normexp.training.launch import launch, make_console, run_folder
from normexp.training.replicas.fit_replicas import fit_replicas
from normexp.training.replicas.why_not import why_not
from normexp.training.run_screen import show_choices, show_hint, status_line
from normexp.training.stopping import stopping


def launch_replicas(all_parts: list[Parts]) -> list[dict[str, Any]]:
    """Train the replicas that are not finished; returns the summaries of all.

    Those that stand at the same step, new or interrupted, are trained together; one that stands at a step of its own is
    a replica by itself. A run ends as it would have ended alone, up to rounding.
    """
    console = make_console()
    first = all_parts[0]
    if first.config["threads"] is not None:
        torch.set_num_threads(first.config["threads"])
    folders = [run_folder(parts) for parts in all_parts]
    waiting = [parts for parts, folder in zip(all_parts, folders, strict=True) if not folder.finished()]
    if reason := why_not(first) if waiting else None:
        console.print(f"replicas one by one: {reason}", highlight=False)
        for parts in waiting:
            launch(parts)
    # Another process may have trained some on while this one waited for their folders: then it looks again.
    while not reason and (at_step := _by_step(folders)):
        for step, same in sorted(at_step.items(), reverse=True):
            train_together([all_parts[i] for i in same], [folders[i] for i in same], step, console)
    if first.config["fast_dev_run"]:
        return []
    summaries = [finished_summary(folder.path) for folder in folders]
    show_replicas(summaries, [folder.path for folder in folders], console)
    for hint in dict.fromkeys(map(asked_otherwise, all_parts, summaries)):
        if hint:
            console.print(hint, highlight=False, markup=False, soft_wrap=True)
    return summaries


def _by_step(folders: list[RunFolder]) -> dict[int, list[int]]:
    """Step -> the runs that go on from it and are not finished; 0 for new ones, and for those that were interrupted
    before their first step."""
    at_step: dict[int, list[int]] = {}
    for index, folder in enumerate(folders):
        if not folder.finished():
            last = folder.last_checkpoint
            step = load_checkpoint(last)["global_step"] if last.exists() else 0
            at_step.setdefault(step, []).append(index)
    return at_step


def train_together(all_parts: list[Parts], folders: list[RunFolder], step: int, console: Console) -> None:
    """Train the runs that go on from `step`; nothing happens if they no longer do."""
    with stopping(folders, console), contextlib.ExitStack() as stack:
        # In one order everywhere: two processes that wait for the same folders do not wait for each other.
        for folder in sorted(folders, key=lambda folder: folder.path):
            stack.enter_context(folder)
        if _by_step(folders) != {step: list(range(len(folders)))}:
            return
        show_choices(all_parts[0], folders[0].path, console)
        since = f", resuming at step {step:,}" if step else ""
        console.print(f"replicas  {len(all_parts)}, trained together{since}", highlight=False)
        fit_replicas(all_parts, [folder.path for folder in folders], console)


def show_replicas(summaries: list[dict[str, Any]], folders: list[Path], console: Console) -> None:
    """Print one line a replica, and where they are."""
    table = Table(show_edge=False, pad_edge=False)
    for column in ("seed", "lr", "val", "test", "status", "folder"):
        table.add_column(column, justify="left" if column in ("status", "folder") else "right")
    for summary, folder in zip(summaries, folders, strict=True):
        config, metrics = summary["config"], summary["metrics"]
        scores = [metrics.get(f"{split}/accuracy") for split in ("val", "test")]
        cells = [f"{score:.2%}" if score is not None else "–" for score in scores]
        table.add_row(str(config["seed"]), f"{config['lr']:g}", *cells, status_line(summary), folder.name)
    console.print(table, highlight=False)
    show_hint(summaries, folders, console)
    console.print(f"folder: {folders[0].parent}", highlight=False, soft_wrap=True)
