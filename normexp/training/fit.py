"""Train one run and say what came of it."""

import datetime
import logging
import os
import platform
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import torchvision
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from rich.console import Console

from normexp import __version__
from normexp.monitors import convergence, measure_without_fit
from normexp.parts import Parts
from normexp.training.evaluation import evaluate
from normexp.training.interrupt import KeepRandomState, SaveOnSignal
from normexp.training.metrics_csv import MetricsCSV
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import Recorder

TRAIN_SAMPLES = 10_000  # the training split is scored on at most so many of its samples


def quiet_lightning() -> None:
    """Lightning's notes about hardware and tips are not about the experiment; and without a GPU its NVML check,
    which it switches on for torch, costs Adam 0.2 ms a step."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="The number of training batches .* is smaller than the logging")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
    if not torch.cuda.is_available():
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"


def fit(parts: Parts, folder: Path | None, console: Console) -> dict[str, Any]:
    """Train to the end, resuming from the folder's `last.ckpt` if it is there; returns the summary.

    `folder=None` is `fast_dev_run`: one batch of everything, nothing saved.
    """
    quiet_lightning()
    config = parts.config
    checkpoint = folder / "checkpoints" / "last.ckpt" if folder else None
    resume = checkpoint if checkpoint is not None and checkpoint.exists() else None
    recorder = Recorder(config["log_every_n_steps"])
    interrupt = SaveOnSignal(checkpoint)
    callbacks = [recorder, *parts.monitors, KeepRandomState(), TimedProgressBar(recorder, console)]
    if folder:
        # The checkpoint of an interruption must hold what every callback knows, hence last.
        callbacks += [*checkpoints(checkpoint.parent), interrupt]
    loggers = make_loggers(folder, resume) if folder else []
    trainer = parts.make_trainer(
        **length(config),
        callbacks=callbacks,
        logger=loggers,
        default_root_dir=folder,
        fast_dev_run=folder is None,
        num_sanity_val_steps=0,
        enable_model_summary=False,
        use_distributed_sampler=False,
        log_every_n_steps=2**31,  # the recorder logs; Lightning's own logging has nothing to say
    )
    parts.data.trainer = trainer
    device = trainer.strategy.root_device
    if config["max_steps"] == 0:  # Lightning's fit would call no hook
        parts.module.to(device)
        measure_without_fit(callbacks, parts.module, parts.data, loggers)
        if folder:
            trainer.strategy.connect(parts.module)
            trainer.save_checkpoint(checkpoint)
    else:
        with interrupt:
            trainer.fit(parts.module, datamodule=parts.data, ckpt_path=resume)
    parts.module.to(device)  # fit leaves it on the CPU
    metrics = final_metrics(parts, trainer)
    summary = summarize(parts, recorder, trainer, metrics)
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            shown = {f"final/{name.replace('/', '_')}": value for name, value in metrics.items()}
            logger.log_hyperparams(
                config, {**shown, "final/diverged": float(summary["status"] == "diverged")}
            )
        logger.finalize("success")
    return summary


def length(config: dict[str, Any]) -> dict[str, Any]:
    """Trainer arguments for how long to train and how often to validate."""
    every, steps = config["val_every_n_steps"], config["max_steps"]
    if steps is not None and every is None:
        every = max(1, steps // 10)
    arguments = (
        {"max_epochs": config["max_epochs"]} if steps is None else {"max_steps": steps, "max_epochs": -1}
    )
    if every is not None:
        arguments |= {"val_check_interval": every, "check_val_every_n_epoch": None}
    return arguments


def checkpoints(folder: Path) -> list[ModelCheckpoint]:
    shared = {"dirpath": folder, "auto_insert_metric_name": False, "enable_version_counter": False}
    return [
        ModelCheckpoint(
            filename="best", monitor="val/accuracy", mode="max", save_on_train_epoch_end=False, **shared
        ),
        ModelCheckpoint(filename="last", every_n_epochs=1, save_on_train_epoch_end=True, **shared),
    ]


def make_loggers(folder: Path, resume: Path | None) -> list:
    """TensorBoard events beside `metrics.csv`; both drop what was written after the checkpoint resumed from."""
    step = torch.load(resume, map_location="cpu", weights_only=True)["global_step"] if resume else None
    purge = {} if step is None else {"purge_step": step + 1}
    board = TensorBoardLogger(folder, name="", version="", default_hp_metric=False, **purge)
    return [board, MetricsCSV(folder / "metrics.csv", step)]


def final_metrics(parts: Parts, trainer: pl.Trainer) -> dict[str, float]:
    """Loss and accuracy on all three splits in evaluation mode with the last weights."""
    metrics = {}
    for split, limit in (("train", TRAIN_SAMPLES), ("val", None), ("test", None)):
        batches = parts.data.evaluation_loader(split, limit)
        for name, value in evaluate(parts.module, batches, trainer).items():
            metrics[f"{split}/{name}"] = value
    return metrics


def summarize(
    parts: Parts, recorder: Recorder, trainer: pl.Trainer, metrics: dict[str, float]
) -> dict[str, Any]:
    finite = all(abs(value) < float("inf") for value in metrics.values())
    diverged = recorder.divergence_step is not None or not finite
    return {
        "status": "diverged" if diverged else "completed",
        "choices": parts.choices,
        "hash": parts.digest,
        "fingerprint": parts.data.fingerprint,
        "metrics": metrics,
        "convergence": convergence(
            recorder.history, parts.config["accuracies"], divergence_step=recorder.divergence_step
        ),
        "steps": trainer.global_step,
        "epochs": recorder.clock["epoch"],
        "seconds": recorder.seconds,
        "parameters": sum(p.numel() for p in parts.module.parameters()),
        "config": parts.config,
        "execution": {
            "mode": "alone",
            "device": str(trainer.strategy.root_device),
            "devices": trainer.world_size,
            "precision": trainer.precision,
            "threads": torch.get_num_threads(),
        },
        "versions": {
            "normexp": __version__,
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "pytorch_lightning": pl.__version__,
            "python": platform.python_version(),
        },
        "command": shlex.join(["python", *sys.argv]),
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
