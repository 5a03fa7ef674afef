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
    """Train the replicas that are not finished. Returns the summaries of all. Each run ends as it would have ended
    alone, up to rounding."""
    console = make_console()
    first = all_parts[0]
    if first.config["threads"] is not None:
        torch.set_num_threads(first.config["threads"])
    folders = [run_folder(parts) for parts in all_parts]
    waiting = {
        folder: parts for folder, parts in zip(folders, all_parts, strict=True) if not folder.finished()
    }
    if reason := why_not(first) if waiting else None:
        console.print(f"replicas one by one: {reason}", highlight=False, markup=False)
        for parts in waiting.values():
            launch(parts)
    else:
        train_together(waiting, console)
    if first.config["fast_dev_run"]:
        return []
    summaries = [finished_summary(folder.path) for folder in folders]
    show_replicas(summaries, [folder.path for folder in folders], console)
    for hint in dict.fromkeys(map(asked_otherwise, all_parts, summaries)):
        if hint:
            console.print(hint, highlight=False, markup=False, soft_wrap=True)
    return summaries


def train_together(waiting: dict[RunFolder, Parts], console: Console) -> None:
    """Train replicas at the same step, new or interrupted, together. A replica that no other shares its step with is
    trained alone by the same code."""
    with stopping(list(waiting), console), contextlib.ExitStack() as stack:
        # Always in the same order, so that two processes that want the same folders do not wait for each other.
        for folder in sorted(waiting, key=lambda folder: folder.path):
            stack.enter_context(folder)
        at_step: dict[int, list[RunFolder]] = {}
        for folder in waiting:
            if not folder.finished():  # another process may have trained it meanwhile
                last = folder.last_checkpoint
                step = load_checkpoint(last)["global_step"] if last.exists() else 0
                at_step.setdefault(step, []).append(folder)
        for step, same in sorted(at_step.items(), reverse=True):
            runs = [waiting[folder] for folder in same]
            seeds, rates = (list(dict.fromkeys(run.config[key] for run in runs)) for key in ("seed", "lr"))
            show_choices(runs[0], same[0].path.parent, console, seeds=seeds, rates=rates)
            since = f", resuming at step {step:,}" if step else ""
            console.print(f"replicas  {len(runs)}, trained together{since}", highlight=False)
            fit_replicas(runs, [folder.path for folder in same], console)
