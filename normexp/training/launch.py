"""From built parts to a finished run folder: skip what is finished, resume what is not, write the summary last."""

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.utilities.exceptions import SIGTERMException
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from rich.console import Console

from normexp.config.identity import default_folder
from normexp.config.run_parts import Parts
from normexp.runs import read_summary, write_summary
from normexp.training.finished_run_hint import asked_otherwise
from normexp.training.fit import fit
from normexp.training.folder import RunFolder
from normexp.training.interrupt import Interrupted, StoppedAtOnce
from normexp.training.run_screen import show_choices, show_result

# Training that was asked to stop keeps its folder for resuming.
KEEP_ON = (Interrupted, SIGTERMException)
# A full disk or a GPU that others filled is over one day: then a checkpoint is worth keeping. Any other error
# would come again, and removes the folder.
KEEP_CHECKPOINT_ON = (StoppedAtOnce, KeyboardInterrupt, OSError, torch.OutOfMemoryError)


def folder_of(parts: Parts) -> Path:
    config = parts.config
    return (
        Path(config["run_dir"]) if config["run_dir"] else default_folder(config, parts.choices, parts.digest)
    )


def run_folder(parts: Parts) -> RunFolder:
    key = "run_dir" if parts.config["run_dir"] else "outputs"
    return RunFolder(
        folder_of(parts),
        parts.digest,
        parts.files,
        asked=f"{key}={parts.config[key]}",
        keep_on=KEEP_ON,
        keep_checkpoint_on=KEEP_CHECKPOINT_ON,
    )


def make_console() -> Console:
    """Wide where the output is a file, and silent in the workers of a distributed run."""
    console = Console(quiet=rank_zero_only.rank != 0)
    return console if console.is_terminal else Console(quiet=console.quiet, width=160)


def launch(parts: Parts) -> dict[str, Any]:
    """Train the run unless it is finished; returns its summary. Exits 130 or 143 when interrupted."""
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
    if rank_zero_only.rank != 0:  # a worker of ddp: the first process owns the folder
        return fit(parts, path, console)
    folder = run_folder(parts)
    if folder.finished():
        console.print(f"This run is finished: {path}", highlight=False, soft_wrap=True)
        summary = read_summary(path)
        show_result(summary, path, console)
        if hint := asked_otherwise(parts, summary):
            console.print(hint, highlight=False, markup=False, soft_wrap=True)
        return summary
    with stopping([folder], console), folder:
        show_choices(parts, path, console)
        if folder.last_checkpoint.exists():
            console.print("resuming from checkpoints/last.ckpt", highlight=False)
        summary = fit(parts, path, console)
        write_summary(path, summary)
    show_result(summary, path, console)
    return summary


@contextlib.contextmanager
def stopping(folders: Sequence[RunFolder], console: Console) -> Iterator[None]:
    """Around the folders of what is trained: say what is left when it is stopped, and exit as the signal asks."""
    try:
        yield
    except (*KEEP_ON, *KEEP_CHECKPOINT_ON) as stop:
        kept = [folder.path for folder in folders if folder.last_checkpoint.exists()]
        asked = isinstance(stop, (*KEEP_ON, StoppedAtOnce))
        if not asked and not kept:  # nothing is left: the error's own line says enough
            raise
        why = f"{stop or type(stop).__name__}: " if asked else ""
        plural = "s" * (len(kept) > 1)
        left = (
            f"checkpoint{plural} kept; the same command goes on from there" if kept else "no checkpoint yet"
        )
        console.print(f"{why}{left}", highlight=False, markup=False, soft_wrap=True)
        for path in kept[:1]:
            console.print(
                f"folder: {path.parent if plural else path}", highlight=False, markup=False, soft_wrap=True
            )
        if not asked and not isinstance(stop, KeyboardInterrupt):
            raise
        terminated = isinstance(stop, SIGTERMException)
        sys.exit(128 + (signal.SIGTERM if terminated else getattr(stop, "signum", signal.SIGINT)))
