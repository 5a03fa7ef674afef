"""The result of a run: final numbers on all splits, the summary that says how to repeat it, and the trained parts."""

import datetime
import math
import platform
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import torchvision
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor, nn

from normexp import NUMERICS, __version__
from normexp.config.errors import one_line
from normexp.config.identity import recipe_overrides
from normexp.config.run_spec import saved_spec
from normexp.data.base import DataModule
from normexp.machine import processor
from normexp.monitors import convergence
from normexp.monitors.charts import callbacks_of
from normexp.monitors.guard import own_buffers, untouched
from normexp.monitors.run_measure import FinishedRun, RunMeasure
from normexp.norms import evaluation_mode, followers, recompute_population_statistics
from normexp.runs import TestExamples
from normexp.runs.summary import REESTIMATED, failed
from normexp.training.build import Parts, build
from normexp.training.checkpoint import RunState, load_checkpoint
from normexp.training.lightning import Pace
from normexp.training.lit_model import LitModel
from normexp.training.recorder import EarlyStopping, Recorder

TRAIN_SAMPLES = 10_000  # most samples of the training split that are scored
POPULATION_SAMPLES = 10_000  # Wu & Johnson 2021: 1,000 to 10,000 samples are enough


def final_metrics(parts: Parts, trainer: pl.Trainer) -> tuple[dict[str, float], TestExamples]:
    """Loss and accuracy on all three splits with the final weights in evaluation mode, and each test example; those of
    validation and test also with running statistics that are estimated anew."""
    parts.module.to(trainer.strategy.root_device)  # fit leaves it on the CPU
    update_population_statistics(parts.module, parts.data, trainer)
    metrics: dict[str, float] = {}
    for split, limit in (("train", TRAIN_SAMPLES), ("val", None), ("test", None)):
        found, right, loss = evaluate(parts.module, parts.data.evaluation_loader(split, limit), trainer)
        metrics |= {f"{split}/{name}": value for name, value in found.items()}
    metrics |= reestimated(parts.module, parts.data, trainer, metrics)
    return metrics, TestExamples(right.numpy(), loss.numpy(), parts.data.test_set)  # of the last split, test


def evaluate(
    module: LitModel, batches: Iterable, trainer: pl.Trainer
) -> tuple[dict[str, float], Tensor, Tensor]:
    """`{"loss", "accuracy"}` in evaluation mode, in the precision of training; and for each example, on the CPU:
    whether answers are right, bool (N, [T]); the loss, (N,)."""
    module.on_validation_epoch_start()
    module.examples = []
    with evaluation_mode(module), torch.inference_mode(), trainer.precision_plugin.val_step_context():
        for index, batch in enumerate(batches):
            module.validation_step(trainer.precision_plugin.convert_input(batch), index)
    right, loss = (torch.cat(parts).cpu() for parts in zip(*module.examples, strict=True))
    module.examples = None
    return module.evaluation_result(), right, loss


def measure_finished(parts: Parts, trainer: pl.Trainer, metrics: Mapping[str, float]) -> None:
    """Log what each `RunMeasure` finds. One that fails says why, and the run ends as without it."""

    def final(split: str) -> dict[str, float]:
        limit = TRAIN_SAMPLES if split == "train" else None
        return evaluate(parts.module, parts.data.evaluation_loader(split, limit), trainer)[0]

    run = FinishedRun(parts.module, parts.data, final, metrics)
    for measure in callbacks_of(trainer):
        if isinstance(measure, RunMeasure):
            values: Mapping[str, float] = {}
            with isolate_rng(), untouched(parts.module):
                try:
                    values = measure.measure_run(run)
                except Exception as error:  # of a user's own code
                    message = f"monitor {type(measure).__name__}: recorded nothing: {one_line(error)}"
                    warnings.warn(message, stacklevel=2)
            for logger in trainer.loggers if values else ():
                logger.log_metrics(dict(values), trainer.global_step)


def summarize(
    parts: Parts, trainer: pl.Trainer, recorder: Recorder, state: RunState, metrics: dict[str, float]
) -> dict[str, Any]:
    """The content of a finished run's `summary.json`, in plain types.

    A run diverged if its training loss is not finite. Where only another split's is not, `not_finite` names it: the
    training is healthy, and most likely that split holds NaN. `failed` says whether the run diverged, or ended with a
    training loss above ten times that of guessing.
    """
    not_finite = [name for name, value in metrics.items() if not math.isfinite(value)]
    diverged = recorder.divergence_step is not None or any(name.startswith("train/") for name in not_finite)
    more = {"not_finite": not_finite} if not_finite and not diverged else {}
    early = any(isinstance(one, EarlyStopping) and one.stopped for one in callbacks_of(trainer))
    batches = Pace.of(trainer).batches_after(trainer.global_step) if trainer.global_step else 0
    commit = state.first["commit"]
    summary = {
        "status": "diverged" if diverged else "completed",
        **more,
        "choices": parts.choices,
        "recipe_changes": recipe_overrides(parts.spec.overrides),
        "hash": parts.spec.digest,
        "fingerprint": parts.data.fingerprint,
        "metrics": metrics,
        "chance_loss": parts.data.chance_loss("train"),
        "convergence": convergence(
            recorder.history, parts.config["accuracies"], divergence_step=recorder.divergence_step
        ),
        "steps": trainer.global_step,
        "epochs": recorder.clock["epoch"],
        "samples": batches * parts.data.batch_size,
        **({"stopped_early": True} if early else {}),
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
        "first": state.first,
        # dirty if any launch was
        **({"checkout": {"commit": commit, "dirty": state.dirty}} if commit else {}),
        "command": parts.command,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return summary | {"failed": failed(summary)}


def update_population_statistics(module: LitModel, data: DataModule, trainer: pl.Trainer) -> None:
    """Precise BatchNorm: recompute the running statistics of a model, in training's precision, if its norms need it."""
    layers = list(module.model.modules())
    if any(getattr(layer, "population_statistics", None) == "precise" for layer in layers):
        noisy = any(getattr(layer, "noisy", False) for layer in layers)
        estimate_statistics(module.model, data, trainer, training=not noisy)


def estimate_statistics(model: nn.Module, data: DataModule, trainer: pl.Trainer, *, training: bool) -> None:
    """Estimate the running statistics of a model from the first training samples, without augmentation, in the
    precision of training. See `recompute_population_statistics`."""
    precision = trainer.precision_plugin
    batches = map(precision.convert_input, data.evaluation_loader("train", POPULATION_SAMPLES))
    with precision.val_step_context():
        recompute_population_statistics(model, batches, training=training)


def reestimated(
    module: LitModel, data: DataModule, trainer: pl.Trainer, metrics: Mapping[str, float]
) -> dict[str, float]:
    """`test/accuracy_reestimated` and the like: the metrics of validation and test with running statistics that are
    estimated anew in eval mode's own conditions, with dropout and noise off. Training collects them from weights of
    many steps, few samples each and with its noise, so they may be those of another network.

    The module keeps its own statistics. Without any, the numbers are those of `metrics`.
    """
    found = {name: value for name, value in metrics.items() if not name.startswith("train/")}
    if followers(module):
        with own_buffers(module):
            estimate_statistics(module, data, trainer, training=False)
            for split in ("val", "test"):
                anew, *_ = evaluate(module, data.evaluation_loader(split), trainer)
                found |= {f"{split}/{name}": value for name, value in anew.items()}
    return {f"{name}_{REESTIMATED}": value for name, value in found.items()}


class PopulationStatistics(pl.Callback):
    """Recomputes population statistics before each validation, as `norm=batchnorm_precise` means it."""

    def __init__(self, data: DataModule) -> None:
        self.data = data

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        assert isinstance(module, LitModel)
        update_population_statistics(module, self.data, trainer)


def trained(folder: Path, summary: dict[str, Any]) -> Parts:
    """The parts of a finished run with its last weights."""
    parts = build(saved_spec(folder, summary))
    state = load_checkpoint(folder / "checkpoints" / "last.ckpt")
    parts.module.load_state_dict(state["state_dict"])
    return parts
