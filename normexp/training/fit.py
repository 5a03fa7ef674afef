"""Train one run and return its summary."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from rich.console import Console

from normexp.monitors.charts import measure_without_fit
from normexp.monitors.guard import passes_as_in
from normexp.runs import TestExamples, damaged, write_test_examples
from normexp.training.checkpoint import (
    BestCheckpoint,
    GeneratorState,
    LastCheckpoint,
    WholeCheckpoints,
    load_to_resume,
)  # fmt: skip
from normexp.training.length import length
from normexp.training.lightning import callbacks_of, keep_freed_memory, own_rank
from normexp.training.loggers.files import hyperparameter_metrics, hyperparameters
from normexp.training.loggers.records import open_records
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import Recorder, early_stopping
from normexp.training.summarize import (
    PopulationStatistics,
    Provenance,
    final_metrics,
    needs_population_statistics,
    summarize,
)  # fmt: skip
from normexp.training.survive import StopOnSignal, watching_workers

if TYPE_CHECKING:
    from normexp.training.train import Parts

WRITTEN_FOR = "2.6"  # the minor version of Lightning whose private loops epoch_loop.py builds on


def fit(
    parts: "Parts", folder: Path | None, console: Console, lost: Callable[[str], None] = print
) -> dict[str, Any]:
    """Train to the end and return the summary. If the folder has a `last.ckpt`, resume from it.

    Args:
        folder: None means `fast_dev_run`: one batch of everything, nothing saved.
        lost: called in another thread when another process of this run died and this one must end.
    """
    keep_freed_memory()
    no_step = parts.config["max_steps"] == 0
    last = LastCheckpoint(folder / "checkpoints" / "last.ckpt" if folder else None)
    resumed = resumed_from(parts, last.path) if last.path and last.path.exists() and not no_step else None
    recorder = Recorder(parts.config["log_every_n_steps"])
    stop = StopOnSignal(last.save)
    early = early_stopping(parts.config, recorder)
    bar = TimedProgressBar([recorder], console)
    callbacks = [stop, recorder, *early, Provenance(parts), *parts.monitors, bar, GeneratorState()]
    if needs_population_statistics(parts.module):
        callbacks.insert(1, PopulationStatistics())
    if last.path:
        callbacks += [BestCheckpoint(last.path.with_name("best.ckpt")), last]
    if mode := parts.config["compile"]:
        parts.module.model.compile(mode="default" if mode is True else mode)
    with open_records(parts, folder, resumed) as loggers:
        alone = {"devices": 1, "strategy": "auto"} if no_step else {}  # other processes would have no work
        more = {"logger": loggers, "default_root_dir": folder, "fast_dev_run": folder is None, **alone}
        trainer = trainer_of(parts, parts.module, callbacks, resumed, console, **more)
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


def resumed_from(parts: "Parts", path: Path) -> dict[str, Any]:
    """The content of the checkpoint that a run resumes from. Raises ValueError with one line if it is another run's, or
    trains at another rate."""
    content = load_to_resume(path, parts.digest)
    asked = parts.module.make_optimizer.keywords.get("lr")
    for group in content["optimizer_states"][0]["param_groups"]:
        found = group.get("initial_lr", group.get("lr"))  # the first of them where a schedule sets the second
        if asked is not None and not math.isclose(found, asked, rel_tol=1e-9):
            raise damaged(path, f"trains at lr={found:g}, and this run at lr={asked:g}", path.parents[1])
    return content


def trainer_of(
    parts: "Parts",
    module: pl.LightningModule,
    callbacks: list[pl.Callback],
    resumed: dict[str, Any] | None,
    console: Console,
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
    if f"{pl.__version__}.".startswith(f"{WRITTEN_FOR}."):
        from normexp.training.epoch_loop import install

        install(trainer)
    else:
        console.print(
            f"Lightning {pl.__version__}: its own loop trains, more slowly than this project's, which knows "
            f"{WRITTEN_FOR}; a resumed run may validate at other steps",
            highlight=False,
        )
    # Convert now. Lightning converts after loading, and a float32 module would round the checkpoint's float64 weights.
    trainer.precision_plugin.convert_module(module)
    return trainer


def take_no_step(parts: "Parts", trainer: pl.Trainer, last: LastCheckpoint) -> None:
    """Measure and save the network at initialization. Lightning's fit with `max_steps=0` would call no hook."""
    parts.module.to(trainer.strategy.root_device)
    with passes_as_in(trainer):  # autocast, or float64 by default, as in training
        measure_without_fit(callbacks_of(trainer), parts.module, parts.data, trainer.loggers)
    if last.path:
        trainer.strategy.connect(parts.module)
        last.save(trainer)


def conclude(
    parts: "Parts",
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
