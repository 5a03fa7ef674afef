"""Train one run and return its summary."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from rich.console import Console

from normexp.config.run_parts import Parts
from normexp.monitors import measure_without_fit
from normexp.monitors.guard import passes_as_in
from normexp.runs import TestExamples, write_test_examples
from normexp.training.checkpoint import BestCheckpoint, LastCheckpoint, WholeCheckpoints, load_to_resume
from normexp.training.code_record import CodeRecord
from normexp.training.early_stopping import early_stopping
from normexp.training.ending import EndingFitLoop
from normexp.training.epoch_loop import PlainEpochLoop
from normexp.training.generator_state import GeneratorState
from normexp.training.hparams_table import hyperparameter_metrics, hyperparameters
from normexp.training.interrupt import StopOnSignal
from normexp.training.length import length
from normexp.training.lightning import callbacks_of, own_rank, quiet_lightning
from normexp.training.memory import keep_freed_memory
from normexp.training.precise_batchnorm import PopulationStatistics, needs_population_statistics
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import Recorder
from normexp.training.records import open_records
from normexp.training.summarize import final_metrics, summarize
from normexp.training.workers import watching_workers


def fit(
    parts: Parts, folder: Path | None, console: Console, lost: Callable[[str], None] = print
) -> dict[str, Any]:
    """Train to the end and return the summary. If the folder has a `last.ckpt`, resume from it.

    Args:
        folder: None means `fast_dev_run`: one batch of everything, nothing saved.
        lost: called in another thread when another process of this run died and this one must end.
    """
    quiet_lightning()
    keep_freed_memory()
    no_step = parts.config["max_steps"] == 0
    last = LastCheckpoint(folder / "checkpoints" / "last.ckpt" if folder else None)
    resumed = load_to_resume(last.path) if last.path and last.path.exists() and not no_step else None
    recorder = Recorder(parts.config["log_every_n_steps"])
    stop = StopOnSignal(last.save)
    code = CodeRecord(parts.config)
    early = early_stopping(parts.config, recorder)
    bar = TimedProgressBar([recorder], console)
    callbacks = [stop, recorder, *early, code, *parts.monitors, bar, GeneratorState()]
    if needs_population_statistics(parts.module):
        callbacks.insert(1, PopulationStatistics())
    if last.path:
        callbacks += [BestCheckpoint(last.path.with_name("best.ckpt")), last]
    if mode := parts.config["compile"]:
        parts.module.model.compile(mode="default" if mode is True else mode)
    with open_records(parts, folder, resumed) as loggers:
        alone = {"devices": 1, "strategy": "auto"} if no_step else {}  # other processes would have no work
        more = {"logger": loggers, "default_root_dir": folder, "fast_dev_run": folder is None, **alone}
        trainer = trainer_of(parts, parts.module, callbacks, resumed, **more)
        parts.data.trainer = trainer
        # Dropout draws the same stream, no matter what initialization or an earlier run of this process drew.
        torch.manual_seed(parts.config["seed"])
        with stop:
            if no_step:
                take_no_step(parts, trainer, last)
            else:
                with watching_workers(trainer, lost):
                    trainer.fit(parts.module, datamodule=parts.data, ckpt_path=last.path if resumed else None)
            results = final_metrics(parts, trainer)
        return conclude(parts, recorder, trainer, folder, *results)


def trainer_of(
    parts: Parts,
    module: pl.LightningModule,
    callbacks: list[pl.Callback],
    resumed: dict[str, Any] | None,
    **more: Any,
) -> pl.Trainer:
    """A trainer that is ready to train a module, which may hold several runs, from the content of a checkpoint."""
    trainer = parts.make_trainer(
        **length(parts.config),
        callbacks=callbacks,
        num_sanity_val_steps=0,
        enable_model_summary=False,
        use_distributed_sampler=False,
        log_every_n_steps=2**31,  # never: the recorder logs, Lightning does not
        **more,
    )
    trainer.strategy.checkpoint_io = WholeCheckpoints(resumed)
    PlainEpochLoop.install(trainer)
    EndingFitLoop.install(trainer)
    # Convert now. Lightning converts after loading, and a float32 module would round the checkpoint's float64 weights.
    trainer.precision_plugin.convert_module(module)
    return trainer


def conclude(
    parts: Parts,
    recorder: Recorder,
    trainer: pl.Trainer,
    folder: Path | None,
    metrics: dict[str, float],
    examples: TestExamples,
) -> dict[str, Any]:
    """The summary of a trained run. Its loggers get it too, and the folder gets the test examples."""
    summary = summarize(parts, recorder, trainer, metrics)
    if folder and own_rank() == 0:
        write_test_examples(folder, examples)
    for logger in trainer.loggers:
        logger.log_hyperparams(hyperparameters(summary), hyperparameter_metrics(summary))
    return summary


def take_no_step(parts: Parts, trainer: pl.Trainer, last: LastCheckpoint) -> None:
    """Measure and save the network at initialization. Lightning's fit with `max_steps=0` would call no hook."""
    parts.module.to(trainer.strategy.root_device)
    with passes_as_in(trainer):  # autocast, or float64 by default, as in training
        measure_without_fit(callbacks_of(trainer), parts.module, parts.data, trainer.loggers)
    if last.path:
        trainer.strategy.connect(parts.module)
        last.save(trainer)
