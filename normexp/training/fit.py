"""Train one run and say what came of it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from rich.console import Console

from normexp.config.code import remember_code
from normexp.config.run_parts import Parts
from normexp.monitors import measure_without_fit
from normexp.monitors.guard import passes_as_in
from normexp.runs import write_test_examples
from normexp.training.checkpoint import load_checkpoint
from normexp.training.epoch_loop import PlainEpochLoop
from normexp.training.interrupt import ResumableTraining
from normexp.training.length import length
from normexp.training.lightning import quiet_lightning
from normexp.training.memory import keep_freed_memory
from normexp.training.metrics_csv import MetricsCSV
from normexp.training.precise_batchnorm import PopulationStatistics, needs_population_statistics
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import Recorder
from normexp.training.summarize import final_metrics, hyperparameter_metrics, hyperparameters, summarize


def fit(parts: Parts, folder: Path | None, console: Console) -> dict[str, Any]:
    """Train to the end, resuming from the folder's `last.ckpt` if it is there; returns the summary.

    `folder=None` is `fast_dev_run`: one batch of everything, nothing saved.
    """
    quiet_lightning()
    keep_freed_memory()
    remember_code(parts.config)
    checkpoint = folder / "checkpoints" / "last.ckpt" if folder else None
    resume = checkpoint if checkpoint is not None and checkpoint.exists() else None
    recorder = Recorder(parts.config["log_every_n_steps"])
    resumable = ResumableTraining(checkpoint)
    callbacks = [recorder, *parts.monitors, TimedProgressBar(recorder, console)]
    if needs_population_statistics(parts.module):
        callbacks.insert(0, PopulationStatistics())
    if folder:
        callbacks += checkpoints(checkpoint.parent)
    callbacks.append(resumable)  # last: its checkpoint must hold what every other callback knows
    if mode := parts.config["compile"]:
        parts.module.model.compile(mode="default" if mode is True else mode)
    with open_loggers(folder, resume) as loggers:
        trainer = parts.make_trainer(
            **length(parts.config),
            callbacks=callbacks,
            logger=loggers,
            default_root_dir=folder,
            fast_dev_run=folder is None,
            num_sanity_val_steps=0,
            enable_model_summary=False,
            use_distributed_sampler=False,
            log_every_n_steps=2**31,  # the recorder logs; Lightning's own logging has nothing to say
        )
        PlainEpochLoop.install(trainer)
        # Lightning converts after it has loaded a checkpoint, whose float64 weights a float32 module would round.
        trainer.precision_plugin.convert_module(parts.module)
        parts.data.trainer = trainer
        # Dropout draws the same stream whatever initialization, or another run of this process, drew.
        torch.manual_seed(parts.config["seed"])
        if parts.config["max_steps"] == 0:
            take_no_step(parts, trainer, checkpoint)
        else:
            with resumable:
                trainer.fit(parts.module, datamodule=parts.data, ckpt_path=resume)
        metrics, examples = final_metrics(parts, trainer)
        summary = summarize(parts, recorder, trainer, metrics)
        if folder and rank_zero_only.rank == 0:
            write_test_examples(folder, examples)
        for logger in loggers:
            logger.log_hyperparams(hyperparameters(summary), hyperparameter_metrics(summary))
    return summary


def take_no_step(parts: Parts, trainer: pl.Trainer, checkpoint: Path | None) -> None:
    """Measure and save the network at initialization; Lightning's fit with `max_steps=0` would call no hook."""
    parts.module.to(trainer.strategy.root_device)
    with passes_as_in(trainer):  # as in training: autocast, or float64 by default
        measure_without_fit(trainer.callbacks, parts.module, parts.data, trainer.loggers)
    if checkpoint:
        trainer.strategy.connect(parts.module)
        trainer.save_checkpoint(checkpoint)


def checkpoints(folder: Path) -> list[ModelCheckpoint]:
    shared = {"dirpath": folder, "auto_insert_metric_name": False, "enable_version_counter": False}
    best = ModelCheckpoint(
        filename="best", monitor="val/accuracy", mode="max", save_on_train_epoch_end=False, **shared
    )
    last = ModelCheckpoint(filename="last", every_n_epochs=1, save_on_train_epoch_end=True, **shared)
    return [best, last]


@contextlib.contextmanager
def open_loggers(folder: Path | None, resume: Path | None) -> Iterator[list]:
    """TensorBoard events beside `metrics.csv`; both drop what was written after the checkpoint resumed from."""
    if folder is None:
        yield []
        return
    step = load_checkpoint(resume)["global_step"] if resume else None
    purge = {} if step is None else {"purge_step": step + 1}
    # A measurement has dozens of values: with the default queue of 10 a step waits until they are on disk.
    loggers = [
        TensorBoardLogger(folder, name="", version="", default_hp_metric=False, max_queue=1000, **purge)
    ]
    if rank_zero_only.rank == 0:
        loggers.append(MetricsCSV(folder / "metrics.csv", step))
    try:
        yield loggers
    finally:
        for logger in loggers:
            logger.finalize("")
            if isinstance(logger, MetricsCSV):
                logger.close()
