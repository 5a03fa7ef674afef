"""Train runs, from plain values to finished folders: build the parts of each (nothing is written until all are valid),
skip finished runs, resume unfinished ones, write the summary last. Several runs train together if they can, else one by
one."""

import contextlib
import functools
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, Trainer
from rich.console import Console

from normexp.config.checks import check_compiler, check_kinds
from normexp.config.construct import construct, load_data, refused
from normexp.config.run_spec import RunSpec
from normexp.config.settings import class_options, decay_of
from normexp.data.base import DataModule
from normexp.lit_model import LitModel
from normexp.runs import finished_summary, write_summary
from normexp.training import screen
from normexp.training.build_model import build_model, check_trainer, rehearse, rehearse_optimizer
from normexp.training.checkpoint import load_checkpoint
from normexp.training.fit import fit
from normexp.training.folder import RunFolder
from normexp.training.lightning import own_rank, total_steps
from normexp.training.replicas.fit_replicas import fit_replicas, why_not
from normexp.training.screen import asked_otherwise, show_choices, show_replicas, show_result, show_text
from normexp.training.survive import Interrupted, give_up, stopping

WHITENED_BY = 5000  # training images


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


@dataclass(kw_only=True)
class Parts:
    """Everything that `launch` needs to train a run.

    Attributes:
        spec: the run.
        make_trainer: makes the trainer from the arguments of this run.
        command: the command line of this run, for its summary.
    """

    spec: RunSpec
    data: DataModule
    module: LitModel
    make_trainer: Callable[..., Trainer]
    monitors: list[Callback]
    command: str

    @property
    def config(self) -> dict[str, Any]:
        return self.spec.config

    @property
    def choices(self) -> dict[str, str]:
        return self.spec.choices

    @property
    def digest(self) -> str:
        return self.spec.digest


def build(spec: RunSpec, *, command: str = "", loaded: Sequence[DataModule] = ()) -> Parts:
    """Build data, model and trainer of one run. Raises ValueError with one line before anything is written.

    Args:
        command: the command line of the run.
        loaded: the data of other runs. They are shared, not copied, if only the order of batches differs.
    """
    quiet_lightning()
    config, allowed = spec.config, spec.allowed
    check_kinds(config, spec.choices, allowed)
    data = load_data(config, allowed, like=loaded)
    model = build_model(config, data, allowed)
    if whitening := getattr(model, "whitening", None):
        whitening.fit(data.rows("train", torch.device("cpu")).take(slice(WHITENED_BY))[0])
    with refused("model", type(model).__name__):
        rehearse(model, data, config["batch_size"])
    module = LitModel(
        model,
        construct("optimizer", class_options(config["optimizer"]), allowed),
        construct("schedule", config["schedule"], allowed),
        total_steps=total_steps(config, data),
        channels_last=config["channels_last"] and getattr(model, "convolves", False),
        label_smoothing=config["label_smoothing"],
        decay=decay_of(config["optimizer"]),
        tta=getattr(data, "tta", "none"),  # of images alone
    )
    with refused("schedule", type(module.schedule).__name__):
        rehearse_optimizer(module, fused=not str(config["trainer"].get("precision")).startswith("16"))
    make_trainer = construct("trainer", config["trainer"], allowed)
    check_trainer(make_trainer, config, spec.choices)
    if config["compile"]:
        check_compiler(config)
    nodes = {f"monitor.{key}": node for key, node in config["monitor"].items() if node is not None}
    monitors = [construct(path, node, allowed) for path, node in nodes.items()]
    return Parts(
        spec=spec, data=data, module=module, make_trainer=make_trainer, monitors=monitors, command=command
    )


def build_all(specs: Sequence[RunSpec], *, command: str = "") -> list[Parts]:
    """The parts of several runs. They share one copy of the data where only the order of batches differs."""
    parts: list[Parts] = []
    for spec in specs:
        parts.append(build(spec, command=command, loaded=[other.data for other in parts]))
    return parts


def quiet_lightning() -> None:
    """Silence Lightning's notes about hardware and its tips. Print warnings without the path of a file. Without a GPU,
    switch off torch's NVML check, which Lightning switches on: it costs Adam 0.2 ms per step."""
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="The number of training batches .* is smaller than the logging")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
    # Lightning warns at each trainer and each fit where Slurm is installed. Runs start their processes themselves.
    warnings.filterwarnings("ignore", message="The `srun` command is available")
    # Every process evaluates the whole split, so there is nothing to synchronize.
    warnings.filterwarnings("ignore", message=".*sync_dist=True.*")
    if not torch.cuda.is_available():
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"


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
