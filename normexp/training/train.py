"""Train runs, from plain values to finished folders: build the parts of each (nothing is written until all are valid),
skip finished runs, resume unfinished ones, write the summary last. Several runs train together if they can, else one by
one."""

import contextlib
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from normexp.config.run_spec import RunSpec
from normexp.runs import finished_summary, write_summary
from normexp.training import screen
from normexp.training.checkpoint import load_checkpoint
from normexp.training.fit import fit
from normexp.training.folder import RunFolder
from normexp.training.lightning import own_rank
from normexp.training.parts import Parts, build_all
from normexp.training.replicas.fit_replicas import fit_replicas, why_not
from normexp.training.screen import asked_otherwise, show_choices, show_replicas, show_result, show_text
from normexp.training.survive import Interrupted, give_up, stopping


def train(specs: Sequence[RunSpec], command: str = "") -> list[dict[str, Any]]:
    """Train runs that belong to one process; finished ones are skipped. Returns their summaries.

    Args:
        specs: one run, or runs that train side by side (`RunSpec.together`).
        command: the typed command line, for the summaries.

    Raises ValueError with one line before anything is written. An interrupted run exits with 128 plus the signal.
    """
    parts = build_all(specs, command=command)
    if len(parts) == 1 and not specs[0].together:
        return [launch(parts[0])]
    return launch_replicas(parts)


def run_folder(parts: Parts) -> RunFolder:
    """The context that makes, locks and cleans the folder of a run."""
    key = "run_dir" if parts.config["run_dir"] else "outputs"
    return RunFolder(
        parts.spec.folder,
        parts.digest,
        parts.spec.files(),
        asked=f"{key}={parts.config[key]}",
    )


def make_console() -> Console:
    """The console of a run, silent in the workers of a distributed one."""
    return screen.make_console(quiet=own_rank() != 0)


def launch(parts: Parts) -> dict[str, Any]:
    """Train the run unless it is finished. Returns its summary. If interrupted, exits with 128 plus the signal."""
    config = parts.config
    if config["threads"] is not None:
        torch.set_num_threads(config["threads"])
    console = make_console()
    if config["fast_dev_run"]:
        show_choices(parts, None, console)
        with stopping([], console):
            summary = fit(parts, None, console)
        show_result(summary, None, console)
        return summary
    path = parts.spec.folder
    if own_rank() != 0:  # a worker of ddp; the first process owns the folder and reports what is left
        with contextlib.suppress(Interrupted):
            return fit(parts, path, console)
        sys.exit()  # to Lightning, any other status means a broken worker
    folder = run_folder(parts)
    if folder.finished():
        return show_finished(parts, path, console)
    with stopping([folder], console), folder:
        if folder.finished():  # another process has trained it meanwhile
            return show_finished(parts, path, console)
        show_choices(parts, path, console)
        if folder.last_checkpoint.exists():
            console.print("resuming from checkpoints/last.ckpt", highlight=False)
        else:
            show_text(parts, "before training", console)
        summary = fit(parts, path, console, lost=functools.partial(give_up, folder, console))
        write_summary(path, summary)
    show_text(parts, "after training", console)
    show_result(summary, path, console)
    return summary


def show_finished(parts: Parts, path: Path, console: Console) -> dict[str, Any]:
    """Print that a run is finished, and what it found. Returns its summary."""
    summary = finished_summary(path)
    screen.show_finished(path, summary, parts.config, parts.choices, parts.command, console)
    return summary


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
    found = zip(all_parts, summaries, strict=True)
    for hint in dict.fromkeys(asked_otherwise(parts.config, parts.choices, own) for parts, own in found):
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
                step = load_checkpoint(last, folder.digest)["global_step"] if last.exists() else 0
                at_step.setdefault(step, []).append(folder)
        for step, same in sorted(at_step.items(), reverse=True):
            runs = [waiting[folder] for folder in same]
            seeds, rates = (list(dict.fromkeys(run.config[key] for run in runs)) for key in ("seed", "lr"))
            show_choices(runs[0], same[0].path.parent, console, seeds=seeds, rates=rates)
            since = f", resuming at step {step:,}" if step else ""
            console.print(f"replicas  {len(runs)}, trained together{since}", highlight=False)
            fit_replicas(runs, [folder.path for folder in same], console)
