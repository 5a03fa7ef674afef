"""Train a run, from plain values to a finished folder: build its parts (nothing is written until all are valid), skip a
finished run, resume an unfinished one, write the summary last."""

import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from normexp.config.run_spec import RunSpec
from normexp.runs import finished_summary, write_summary
from normexp.training import screen
from normexp.training.denormals import denormals
from normexp.training.fit import fit
from normexp.training.folder import RunFolder
from normexp.training.lightning import own_rank
from normexp.training.parts import Parts, build
from normexp.training.screen import show_choices, show_result, show_text
from normexp.training.survive import Interrupted, give_up, stopping


def train(spec: RunSpec, command: str = "") -> dict[str, Any]:
    """Train a run unless it is finished. Returns its summary.

    Args:
        command: the typed command line, for the summary.

    Raises ValueError with one line before anything is written. An interrupted run exits with 128 plus the signal.
    """
    with denormals(flush=spec.config["flush_denormal"]):
        return launch(build(spec, command=command))


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
