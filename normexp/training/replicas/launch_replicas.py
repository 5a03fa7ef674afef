"""From the parts of several replicas to finished run folders: together if possible, else one by one."""

import contextlib
from typing import Any

import torch
from rich.console import Console

from normexp.config.run_parts import Parts
from normexp.runs import finished_summary
from normexp.training.checkpoint import load_checkpoint
from normexp.training.finished_run_hint import asked_otherwise
from normexp.training.folder import RunFolder
from normexp.training.launch import launch, make_console, run_folder
from normexp.training.replicas.fit_replicas import fit_replicas
from normexp.training.replicas.replica_screen import show_replicas
from normexp.training.replicas.why_not import why_not
from normexp.training.run_screen import show_choices
from normexp.training.stopping import stopping


def launch_replicas(all_parts: list[Parts]) -> list[dict[str, Any]]:
    """Train the replicas that are not finished. Returns the summaries of all.

    Replicas at the same step, new or interrupted, are trained together. A replica that no other shares its step with
    is trained alone by the same code. Each run ends as it would have ended alone, up to rounding.
    """
    console = make_console()
    first = all_parts[0]
    if first.config["threads"] is not None:
        torch.set_num_threads(first.config["threads"])
    folders = [run_folder(parts) for parts in all_parts]
    waiting = [parts for parts, folder in zip(all_parts, folders, strict=True) if not folder.finished()]
    if reason := why_not(first) if waiting else None:
        console.print(f"replicas one by one: {reason}", highlight=False, markup=False)
        for parts in waiting:
            launch(parts)
    # While this process waited for the folders, another one may have trained some of the runs. So look again.
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
    """Step -> the unfinished runs that resume there. New runs are at step 0, and so are runs that were interrupted
    before their first step."""
    at_step: dict[int, list[int]] = {}
    for index, folder in enumerate(folders):
        if not folder.finished():
            last = folder.last_checkpoint
            step = load_checkpoint(last)["global_step"] if last.exists() else 0
            at_step.setdefault(step, []).append(index)
    return at_step


def train_together(all_parts: list[Parts], folders: list[RunFolder], step: int, console: Console) -> None:
    """Train the runs that resume at `step`. Do nothing if another process has trained them on."""
    with stopping(folders, console), contextlib.ExitStack() as stack:
        # Always in the same order, so that two processes that want the same folders do not wait for each other.
        for folder in sorted(folders, key=lambda folder: folder.path):
            stack.enter_context(folder)
        if _by_step(folders) != {step: list(range(len(folders)))}:
            return
        seeds, rates = (
            list(dict.fromkeys(parts.config[key] for parts in all_parts)) for key in ("seed", "lr")
        )
        show_choices(all_parts[0], folders[0].path.parent, console, seeds=seeds, rates=rates)
        since = f", resuming at step {step:,}" if step else ""
        console.print(f"replicas  {len(all_parts)}, trained together{since}", highlight=False)
        fit_replicas(all_parts, [folder.path for folder in folders], console)
