"""From built parts to a finished run folder: skip a finished run, resume an unfinished one, write the summary last."""

import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from normexp.config.identity import default_folder
from normexp.config.run_parts import Parts
from normexp.runs import finished_summary, write_summary
from normexp.training.finished_run_hint import asked_otherwise
from normexp.training.fit import fit
from normexp.training.folder import RunFolder
from normexp.training.interrupt import Interrupted
from normexp.training.lightning import own_rank
from normexp.training.run_screen import show_choices, show_result
from normexp.training.stopping import give_up, stopping
from normexp.unseen import screen


def folder_of(parts: Parts) -> Path:
    """The folder of a run: `run_dir`, or the default folder of its identity."""
    config = parts.config
    return (
        Path(config["run_dir"]) if config["run_dir"] else default_folder(config, parts.choices, parts.digest)
    )


def run_folder(parts: Parts) -> RunFolder:
    """The context that makes, locks and cleans the folder of a run."""
    key = "run_dir" if parts.config["run_dir"] else "outputs"
    return RunFolder(
        folder_of(parts),
        parts.digest,
        parts.files,
        asked=f"{key}={parts.config[key]}",
    )


def make_console() -> Console:
    """A console that is wide if the output is a file, and silent in the workers of a distributed run. A run does not
    end where it can no longer print."""
    console = Console(quiet=own_rank() != 0, file=screen())
    return console if console.is_terminal else Console(quiet=console.quiet, file=console.file, width=160)


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
    path = folder_of(parts)
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
        summary = fit(parts, path, console, lost=functools.partial(give_up, folder, console))
        write_summary(path, summary)
    show_result(summary, path, console)
    return summary


def show_finished(parts: Parts, path: Path, console: Console) -> dict[str, Any]:
    """Print that a run is finished, its result, and any measurement that it lacks. Returns its summary."""
    console.print(f"This run is finished: {path}", highlight=False, markup=False, soft_wrap=True)
    summary = finished_summary(path)
    show_result(summary, path, console)
    if hint := asked_otherwise(parts, summary):
        console.print(hint, highlight=False, markup=False, soft_wrap=True)
    return summary
