"""The summary of a run: its final numbers, how fast it learned, and everything needed to repeat it."""

import datetime
import math
import platform
from typing import Any

import pytorch_lightning as pl
import torch
import torchvision

from normexp import __version__
from normexp.config.recipe import changes
from normexp.config.run_parts import Parts
from normexp.monitors import convergence
from normexp.runs import TestExamples
from normexp.training.code_record import CodeRecord
from normexp.training.early_stopping import stopped_early
from normexp.training.evaluation import evaluate, evaluate_each
from normexp.training.lightning import callbacks_of
from normexp.training.precise_batchnorm import update_population_statistics
from normexp.training.recorder import Recorder

TRAIN_SAMPLES = 10_000  # most samples of the training split that are scored


def final_metrics(parts: Parts, trainer: pl.Trainer) -> tuple[dict[str, float], TestExamples]:
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
    parts: Parts, recorder: Recorder, trainer: pl.Trainer, metrics: dict[str, float]
) -> dict[str, Any]:
    """The content of a finished run's `summary.json`, in plain types."""
    finite = all(math.isfinite(value) for value in metrics.values())
    diverged = recorder.divergence_step is not None or not finite
    code = next(callback for callback in callbacks_of(trainer) if isinstance(callback, CodeRecord))
    return {
        "status": "diverged" if diverged else "completed",
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
        },
        "versions": {
            "normexp": __version__,
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "pytorch_lightning": pl.__version__,
            "python": platform.python_version(),
        },
        "sources": code.sources,
        **({"checkout": code.checkout} if code.checkout else {}),
        "command": parts.command,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
