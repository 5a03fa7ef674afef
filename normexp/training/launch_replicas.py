"""From the parts of several replicas to finished run folders: side by side where that is possible, else in turn."""

import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from normexp.parts import Parts
from normexp.runs import read_summary, write_summary
from normexp.training.fit_replicas import fit_replicas, why_not
from normexp.training.folder import RunFolder
from normexp.training.interrupt import Interrupted
from normexp.training.launch import KEEP_ON, folder_of, launch, make_console
from normexp.training.screen import show_choices, status_line


def launch_all(all_parts: list[Parts], files: dict[str, str]) -> list[dict[str, Any]]:
    """Train one run, or all replicas that are not finished; returns their summaries.

    What was interrupted goes on alone from its checkpoint, the others are trained side by side. Either way a run ends
    as it would have ended alone, up to rounding.
    """
    if len(all_parts) == 1:
        return [launch(all_parts[0], files)]
    console = make_console()
    first = all_parts[0]
    if first.config["run_dir"]:
        raise ValueError(f"run_dir={first.config['run_dir']}: replicas have a folder each; leave it out")
    if first.config["threads"] is not None:
        torch.set_num_threads(first.config["threads"])
    folders = [
        RunFolder(folder_of(parts), parts.digest, own_files(files, parts), keep_on=KEEP_ON)
        for parts in all_parts
    ]
    begun = [
        i for i, folder in enumerate(folders) if not folder.finished() and folder.last_checkpoint.exists()
    ]
    fresh = [i for i, folder in enumerate(folders) if not folder.finished() and i not in begun]
    reason = why_not(first) if len(fresh) > 1 else None
    if reason:
        console.print(f"replicas one after the other: {reason}", highlight=False)
        begun, fresh = begun + fresh, []
    if len(fresh) == 1:
        begun, fresh = begun + fresh, []
    if fresh:
        side_by_side([all_parts[i] for i in fresh], [folders[i] for i in fresh], console)
    for i in begun:
        launch(all_parts[i], own_files(files, all_parts[i]))
    if first.config["fast_dev_run"]:
        return []
    summaries = [read_summary(folder.path) for folder in folders]
    show_replicas(summaries, [folder.path for folder in folders], console)
    return summaries


def side_by_side(all_parts: list[Parts], folders: list[RunFolder], console: Console) -> None:
    paths = [folder.path for folder in folders]
    try:
        with contextlib.ExitStack() as stack:
            for folder in folders:
                stack.enter_context(folder)
            show_choices(all_parts[0], paths[0], console)
            console.print(f"replicas  {len(all_parts)} side by side", highlight=False)
            for path, summary in zip(paths, fit_replicas(all_parts, paths, console), strict=True):
                write_summary(path, summary)
    except Interrupted as stop:
        console.print(f"{stop}: checkpoints kept; the same command goes on from there", highlight=False)
        sys.exit(128 + stop.signum)
    except KEEP_ON:
        sys.exit(128 + signal.SIGTERM)


def own_files(files: dict[str, str], parts: Parts) -> dict[str, str]:
    """The files of `.hydra/` for one replica: what makes it that run stands behind the shared overrides."""
    note = f"# one of several replicas: seed={parts.config['seed']} lr={parts.config['lr']:g}\n"
    return {name: note + text for name, text in files.items()}


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
    console.print(f"folder: {folders[0].parent}", highlight=False, soft_wrap=True)
