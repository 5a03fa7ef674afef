"""The result of a trained run: its final numbers on all splits, the summary that says how to repeat it, and its parts
with their last weights."""

import datetime
import math
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import torchvision
from torch import Tensor

from normexp import NUMERICS, __version__
from normexp.config.identity import changes
from normexp.config.run_spec import saved_spec
from normexp.data.base import DataModule
from normexp.machine import processor
from normexp.monitors import convergence
from normexp.monitors.charts import callbacks_of
from normexp.norms import evaluation_mode, recompute_population_statistics
from normexp.runs import TestExamples
from normexp.runs.summary import failed
from normexp.training.build import Parts, build
from normexp.training.checkpoint import RunState, load_checkpoint
from normexp.training.lightning import Pace
from normexp.training.lit_model import LitModel
from normexp.training.recorder import EarlyStopping, Recorder

TRAIN_SAMPLES = 10_000  # most samples of the training split that are scored
POPULATION_SAMPLES = 10_000  # Wu & Johnson 2021: 1,000 to 10,000 samples are enough


def final_metrics(parts: Parts, trainer: pl.Trainer) -> tuple[dict[str, float], TestExamples]:
    """Loss and accuracy on all three splits with the final weights in evaluation mode, and each test example."""
    parts.module.to(trainer.strategy.root_device)  # fit leaves it on the CPU
    update_population_statistics(parts.module, parts.data, trainer)
    results = {
        split: evaluate(parts.module, parts.data.evaluation_loader(split, limit), trainer)
        for split, limit in (("train", TRAIN_SAMPLES), ("val", None), ("test", None))
    }
    metrics = {
        f"{split}/{name}": value for split, (found, *_) in results.items() for name, value in found.items()
    }
    _, right, loss = results["test"]
    return metrics, TestExamples(right.numpy(), loss.numpy(), parts.data.test_set)


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
    told = {"not_finite": not_finite} if not_finite and not diverged else {}
    early = any(
        isinstance(callback, EarlyStopping) and callback.stopped for callback in callbacks_of(trainer)
    )
    batches = Pace.of(trainer).batches_after(trainer.global_step) if trainer.global_step else 0
    commit = state.first["commit"]
    summary = {
        "status": "diverged" if diverged else "completed",
        **told,
        "choices": parts.choices,
        "recipe_changes": changes(parts.spec.overrides),
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
    """Precise BatchNorm: recompute the running statistics of a model whose norms need it, in the precision of training.
    Do nothing to other models."""
    if any(getattr(layer, "population_statistics", None) == "precise" for layer in module.model.modules()):
        precision = trainer.precision_plugin
        batches = map(precision.convert_input, data.evaluation_loader("train", POPULATION_SAMPLES))
        with precision.val_step_context():
            recompute_population_statistics(module.model, batches)


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
