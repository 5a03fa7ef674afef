"""From the parts of several replicas to finished run folders: side by side where that is possible, else in turn."""

import contextlib
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from normexp.config.run_parts import Parts
from normexp.runs import read_summary
from normexp.training.checkpoint import load_checkpoint
from normexp.training.finished_run_hint import asked_otherwise
from normexp.training.folder import RunFolder
from normexp.training.launch import launch, make_console, run_folder
from normexp.training.replicas.fit_replicas import fit_replicas, why_not
from normexp.training.run_screen import show_choices, show_hint, status_line
from normexp.training.stopping import stopping


def launch_replicas(all_parts: list[Parts]) -> list[dict[str, Any]]:
    """Train all replicas that are not finished; returns the summaries of all.

    Those that stand at the same step, new or interrupted, are trained side by side; one that stands at a step of its
    own is computed in the same way. A run ends as it would have ended alone, up to rounding.
    """
    console = make_console()
    first = all_parts[0]
    if first.config["threads"] is not None:
        torch.set_num_threads(first.config["threads"])
    folders = [run_folder(parts) for parts in all_parts]
    finished = [index for index, folder in enumerate(folders) if folder.finished()]
    reason = why_not(first) if len(finished) < len(folders) else None
    if reason:
        console.print(f"replicas one after the other: {reason}", highlight=False)
        for index in range(len(folders)):
            if index not in finished:
                launch(all_parts[index])
    # Another process may have trained some on while this one waited for their folders: then it looks again.
    while not reason and (at_step := _by_step(folders)):
        for step, same in sorted(at_step.items(), reverse=True):
            side_by_side([all_parts[i] for i in same], [folders[i] for i in same], step, console)
    if first.config["fast_dev_run"]:
        return []
    summaries = [read_summary(folder.path) for folder in folders]
    show_replicas(summaries, [folder.path for folder in folders], console)
    hints = [asked_otherwise(all_parts[index], summaries[index]) for index in finished]
    for hint in dict.fromkeys(filter(None, hints)):
        console.print(hint, highlight=False, markup=False, soft_wrap=True)
    return summaries


def _step(folder: RunFolder) -> int:
    """At which an interrupted run goes on; 0 for a new one, so that one interrupted before its first step is new."""
    return load_checkpoint(folder.last_checkpoint)["global_step"] if folder.last_checkpoint.exists() else 0


def _by_step(folders: list[RunFolder]) -> dict[int, list[int]]:
    """Step -> those that stand at it and are not finished."""
    at_step: dict[int, list[int]] = {}
    for index, folder in enumerate(folders):
        if not folder.finished():
            at_step.setdefault(_step(folder), []).append(index)
    return at_step


def side_by_side(all_parts: list[Parts], folders: list[RunFolder], step: int, console: Console) -> None:
    """Train those that stand at `step`; nothing happens if they no longer do."""
    paths = [folder.path for folder in folders]
    with stopping(folders, console), contextlib.ExitStack() as stack:
        # In one order everywhere: two processes that wait for the same folders do not wait for each other.
        for folder in sorted(folders, key=lambda folder: folder.path):
            stack.enter_context(folder)
        if _by_step(folders) != {step: list(range(len(folders)))}:
            return
        show_choices(all_parts[0], paths[0], console)
        since = f", resuming at step {step:,}" if step else ""
        console.print(f"replicas  {len(all_parts)}, side by side{since}", highlight=False)
        fit_replicas(all_parts, paths, console)


def show_replicas(summaries: list[dict[str, Any]], folders: list[Path], console: Console) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for column in ("seed", "lr", "val", "test", "status", "folder"):
        table.add_column(column, justify="right" if column in ("seed", "lr", "val", "test") else "left")
    for summary, folder in zip(summaries, folders, strict=True):
        config, metrics = summary["config"], summary["metrics"]
        scores = [metrics.get(f"{split}/accuracy") for split in ("val", "test")]
        cells = [f"{score:.2%}" if score is not None else "–" for score in scores]
        table.add_row(str(config["seed"]), f"{config['lr']:g}", *cells, status_line(summary), folder.name)
    console.print(table, highlight=False)
    show_hint(summaries, folders, console)
    console.print(f"folder: {folders[0].parent}", highlight=False, soft_wrap=True)
