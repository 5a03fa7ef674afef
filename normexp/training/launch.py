"""From built parts to a finished run folder: skip what is finished, resume what is not, write the summary last."""

import signal
import sys
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.utilities.exceptions import SIGTERMException
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from rich.console import Console

from normexp.identity import default_folder
from normexp.parts import Parts
from normexp.runs import read_summary, write_summary
from normexp.training.fit import fit
from normexp.training.folder import RunFolder
from normexp.training.interrupt import Interrupted
from normexp.training.screen import show_choices, show_result

# A folder stays for resuming when training was interrupted; any other error removes it.
KEEP_ON = (Interrupted, SIGTERMException, KeyboardInterrupt)


def folder_of(parts: Parts) -> Path:
    config = parts.config
    return (
        Path(config["run_dir"]) if config["run_dir"] else default_folder(config, parts.choices, parts.digest)
    )


def make_console() -> Console:
    """Wide where the output is a file, and silent in the workers of a distributed run."""
    console = Console(quiet=rank_zero_only.rank != 0)
    return console if console.is_terminal else Console(quiet=console.quiet, width=160)


def launch(parts: Parts, files: dict[str, str]) -> dict[str, Any]:
    """Train the run unless it is finished; returns its summary. Exits 130 or 143 when interrupted."""
    config = parts.config
    if config["threads"] is not None:
        torch.set_num_threads(config["threads"])
    console = make_console()
    if config["fast_dev_run"]:
        show_choices(parts, None, console)
        summary = fit(parts, None, console)
        show_result(summary, None, console)
        return summary
    path = folder_of(parts)
    if rank_zero_only.rank != 0:  # a worker of ddp: the first process owns the folder
        return fit(parts, path, console)
    folder = RunFolder(path, parts.digest, files, keep_on=KEEP_ON)
    if folder.finished():
        console.print(f"This run is finished: {path}", highlight=False, soft_wrap=True)
        summary = read_summary(path)
        show_result(summary, path, console)
        return summary
    try:
        with folder:
            show_choices(parts, path, console)
            if folder.last_checkpoint.exists():
                console.print("resuming from checkpoints/last.ckpt", highlight=False)
            summary = fit(parts, path, console)
            write_summary(path, summary)
    except (Interrupted, SIGTERMException) as stop:
        signum = stop.signum if isinstance(stop, Interrupted) else signal.SIGTERM
        kept = (
            "checkpoint kept; the same command goes on from there"
            if folder.last_checkpoint.exists()
            else "no checkpoint yet"
        )
        console.print(f"{stop or 'SIGTERM'}: {kept}", highlight=False)
        console.print(f"folder: {path}", highlight=False, soft_wrap=True)
        sys.exit(128 + signum)
    show_result(summary, path, console)
    return summary
