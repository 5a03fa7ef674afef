"""Train one run to its end: its final numbers, the code that computed them, and the summary that repeats it."""

import datetime
import math
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
import torchvision
from rich.console import Console
from torch import Tensor

from normexp import NUMERICS, __version__
from normexp.config.checkout import checkout
from normexp.config.recipe import changes
from normexp.data.base import DataModule
from normexp.lit_model import LitModel
from normexp.machine import processor
from normexp.monitors import convergence
from normexp.monitors.charts import measure_without_fit
from normexp.monitors.guard import passes_as_in
from normexp.norms import evaluation_mode, recompute_population_statistics
from normexp.runs import TestExamples, damaged, write_test_examples
from normexp.runs.summary import failed
from normexp.training.checkpoint import (
    BestCheckpoint,
    GeneratorState,
    LastCheckpoint,
    WholeCheckpoints,
    load_to_resume,
)  # fmt: skip
from normexp.training.lightning import Pace, callbacks_of, data_of, keep_freed_memory, length, own_rank
from normexp.training.loggers.files import hyperparameter_metrics, hyperparameters
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import Recorder, early_stopping, open_records, stopped_early
from normexp.training.survive import StopOnSignal, watching_workers

if TYPE_CHECKING:
    from normexp.training.parts import Parts

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
    bar = TimedProgressBar(recorder, console)
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
    """A trainer that is ready to train a module from the content of a checkpoint."""
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


TRAIN_SAMPLES = 10_000  # most samples of the training split that are scored
POPULATION_SAMPLES = 10_000  # Wu & Johnson 2021: 1,000 to 10,000 samples are enough


def final_metrics(parts: "Parts", trainer: pl.Trainer) -> tuple[dict[str, float], TestExamples]:
    """Loss and accuracy on all three splits with the final weights in evaluation mode, and each test example."""
    parts.module.to(trainer.strategy.root_device)  # fit leaves it on the CPU
    update_population_statistics(parts.module, parts.data, trainer)
    results = {
        split: evaluate(parts.module, parts.data.evaluation_loader(split, limit), trainer)
        for split, limit in (("train", TRAIN_SAMPLES), ("val", None))
    }
    results["test"], right, loss = evaluate_each(parts.module, parts.data.evaluation_loader("test"), trainer)
    metrics = {
        f"{split}/{name}": value for split, result in results.items() for name, value in result.items()
    }
    return metrics, TestExamples(right.numpy(), loss.numpy(), parts.data.test_set)


def summarize(
    parts: "Parts", recorder: Recorder, trainer: pl.Trainer, metrics: dict[str, float]
) -> dict[str, Any]:
    """The content of a finished run's `summary.json`, in plain types.

    A run diverged if its training loss is not finite. Where only another split's is not, `not_finite` names it: the
    training is healthy, and most likely that split holds NaN. `failed` says whether the run diverged, or ended with a
    training loss above ten times that of guessing.
    """
    not_finite = [name for name, value in metrics.items() if not math.isfinite(value)]
    diverged = recorder.divergence_step is not None or any(name.startswith("train/") for name in not_finite)
    told = {"not_finite": not_finite} if not_finite and not diverged else {}
    origin = next(callback for callback in callbacks_of(trainer) if isinstance(callback, Provenance))
    batches = Pace.of(trainer).batches_after(trainer.global_step) if trainer.global_step else 0
    summary = {
        "status": "diverged" if diverged else "completed",
        **told,
        "choices": parts.choices,
        "recipe_changes": changes(parts.config, parts.choices),
        "hash": parts.digest,
        "fingerprint": parts.data.fingerprint,
        "metrics": metrics,
        "chance_loss": parts.data.chance_loss("train"),
        "convergence": convergence(
            recorder.history, parts.config["accuracies"], divergence_step=recorder.divergence_step
        ),
        "steps": trainer.global_step,
        "epochs": recorder.clock["epoch"],
        "samples": batches * parts.data.batch_size,
        **({"stopped_early": True} if stopped_early(callbacks_of(trainer)) else {}),
        "seconds": recorder.seconds,
        "parameters": sum(p.numel() for p in parts.module.parameters()),
        "config": parts.config,
        "execution": {
            "mode": "compiled" if parts.config["compile"] else "alone",
            "device": str(trainer.strategy.root_device),
            "devices": trainer.world_size,
            "precision": trainer.precision,
            "threads": torch.get_num_threads(),
            "processor": processor(),
            **({"fingerprint_of": parts.data.covered} if parts.data.covered else {}),
        },
        "versions": {
            "normexp": __version__,
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "pytorch_lightning": pl.__version__,
            "python": platform.python_version(),
        },
        "numerics": NUMERICS,
        "first": origin.first,
        **({"checkout": origin.checkout} if origin.checkout else {}),
        "command": parts.command,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return summary | {"failed": failed(summary)}


def evaluate(module: LitModel, batches: Iterable, trainer) -> dict[str, float]:
    """`{"loss", "accuracy"}` in evaluation mode, in the precision of training."""
    module.on_validation_epoch_start()
    with evaluation_mode(module), torch.inference_mode(), trainer.precision_plugin.val_step_context():
        for index, batch in enumerate(batches):
            module.validation_step(trainer.precision_plugin.convert_input(batch), index)
    return module.evaluation_result()


def evaluate_each(module: LitModel, batches: Iterable, trainer) -> tuple[dict[str, float], Tensor, Tensor]:
    """The same numbers, and for each example, on the CPU: whether answers are right, bool (N, [T]); the loss, (N,)."""
    module.examples = []
    try:
        result = evaluate(module, batches, trainer)
        right, loss = (torch.cat(parts).cpu() for parts in zip(*module.examples, strict=True))
    finally:
        module.examples = None
    return result, right, loss


def needs_population_statistics(module: LitModel) -> bool:
    """Whether some layer needs its population statistics recomputed."""
    return any(getattr(layer, "population_statistics", None) == "precise" for layer in module.model.modules())


def update_population_statistics(module: LitModel, data: DataModule, trainer: pl.Trainer) -> None:
    """Precise BatchNorm: recompute the running statistics of a model whose norms need it, in the precision of training.
    Do nothing to other models."""
    if needs_population_statistics(module):
        precision = trainer.precision_plugin
        batches = map(precision.convert_input, data.evaluation_loader("train", POPULATION_SAMPLES))
        with precision.val_step_context():
            recompute_population_statistics(module.model, batches)


class PopulationStatistics(pl.Callback):
    """Recomputes population statistics before each validation, as `norm=batchnorm_precise` means it."""

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, LitModel)
        update_population_statistics(module, data_of(trainer), trainer)


class Provenance(pl.Callback):
    """Which run this is, and when and from which commit it was first launched. Every checkpoint keeps that.

    Attributes:
        first: `started`, `commit` and `dirty` of the first launch.
        dirty: whether any launch came from a changed checkout.
    """

    def __init__(self, parts: "Parts"):
        self.identity = parts.digest
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        found = checkout() or {"commit": None, "dirty": None}
        self.first: dict[str, Any] = {"started": now, **found}
        self.dirty = bool(found["dirty"])

    @property
    def checkout(self) -> dict[str, Any] | None:
        """The commit of the first launch; dirty if any launch was."""
        return {"commit": self.first["commit"], "dirty": self.dirty} if self.first["commit"] else None

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first, "dirty": self.dirty}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.first = state["first"]
        self.dirty |= state["dirty"]

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        checkpoint["identity"] = self.identity
