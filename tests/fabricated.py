"""Run folders with invented numbers in the real formats: what the table and the report read, without training."""

import csv
import itertools
import json
import math
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rich.console import Console

from normexp.config.identity import config_hash
from normexp.report.finding import show_folder
from normexp.report.tensorboard_means import FOLDER
from normexp.runs import TestExamples, write_summary, write_test_examples

STEPS = range(0, 201, 20)
LAYERS = [f"layer{index:02d}" for index in range(1, 4)]
WORTH = {"none": 0.0, "batchnorm": 0.08, "layernorm": 0.06, "groupnorm": 0.05}  # accuracy above no norm


def config(norm: str, batch_size: int, seed: int, **changes) -> dict:
    base = {
        "seed": seed, "batch_size": batch_size, "lr": 0.1, "max_epochs": 10, "max_steps": None, "eps": 1e-5,
        "accuracies": [0.5, 0.9], "name": "study", "outputs": "outputs", "run_dir": None, "threads": None,
        "model": {"_target_": "normexp.models.MLP", "_partial_": True, "depth": 3},
        "norm": {"_target_": "normexp.norms.X", "_partial_": True}
        | ({} if norm == "none" else {"eps": 1e-5, "correction": 0}),
        "data": {"_target_": "normexp.data.Digits", "batch_size": batch_size, "seed": seed},
        "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True, "lr": changes.get("lr", 0.1)},
        "schedule": {"_target_": "normexp.schedules.Constant", "warmup_steps": 0},
        "trainer": {"_target_": "pytorch_lightning.Trainer", "accelerator": "auto"},
        "monitor": {},
    }  # fmt: skip
    for key, value in changes.items():
        group, dot, name = key.partition(".")
        base[group] = {**base[group], name: value} if dot else value
    return base


def curve(norm: str, batch_size: int, seed: int, lr: float = 0.1) -> list[float]:
    """Validation accuracies at STEPS: a worse norm, a far learning rate and a tiny batch all cost accuracy."""
    noise = random.Random(f"{seed}")  # the same in every arm, as paired runs share their luck
    tiny = 0.25 / batch_size if norm == "batchnorm" else 0.0
    final = 0.85 + WORTH.get(norm, 0.03) - tiny - 0.02 * abs(math.log10(lr / 0.1)) + noise.gauss(0, 0.008)
    return [0.1 + (final - 0.1) * (1 - math.exp(-step / 50)) for step in STEPS]


def write_run(
    root: Path, norm: str, batch_size: int, seed: int, status: str = "completed", *, fingerprint: str = "",
    examples: int = 0, **changes,
) -> Path:  # fmt: skip
    """One run's folder; `changes` are keys of the configuration such as `lr=0.3` or `{"model.depth": 8}`. With
    `examples`, the run kept so many test examples."""
    resolved = config(norm, batch_size, seed, **changes)
    digest = config_hash(resolved, fingerprint)
    folder = Path(root) / "mlp" / f"{norm}-bs{batch_size}-s{seed}-{digest[:8]}"
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "identity").write_text(digest)
    accuracies = curve(norm, batch_size, seed, resolved["lr"])
    write_metrics(folder, norm, accuracies, resolved["lr"])
    final = accuracies[-1] if status == "completed" else math.nan
    if examples and status == "completed":
        right = np.random.default_rng(seed).permutation(examples) < round(final * examples)
        final = float(right.mean())
        write_test_examples(folder, TestExamples(right, np.full(examples, 1 - final), "test set"))
    per_step = resolved["trainer"].get("accumulate_grad_batches", 1)
    epoch = 20 * per_step - (per_step > 1)  # batches; the last of its 20 steps has one less
    reached = {goal: next((step for step, value in zip(STEPS, accuracies, strict=True) if value >= goal), None)
               for goal in (0.5, 0.9)}  # fmt: skip
    write_summary(
        folder,
        {
            "status": status,
            "choices": {
                "model": "mlp", "norm": norm, "data": "digits", "optimizer": "sgd", "schedule": "constant",
                "trainer": "auto", "monitor": "light", "hydra/launcher": "normexp",
            },
            "hash": digest,
            "fingerprint": fingerprint,
            "metrics": {f"{split}/accuracy": final for split in ("train", "val", "test")} | {"test/loss": 1 - final},
            "convergence": {
                **{f"steps_to_{goal}": step for goal, step in reached.items()},
                **{f"epochs_to_{goal}": step and step / 20 for goal, step in reached.items()},
                **{f"seconds_to_{goal}": step and step / 100 for goal, step in reached.items()},
                "auc": float(np.mean([(a + b) / 2 for a, b in itertools.pairwise(accuracies)])),
                "best": max(accuracies), "best_step": 200, "last": accuracies[-1],
                "divergence_step": None if status == "completed" else 40,
            },
            "steps": 200, "epochs": 10.0, "samples": 10 * epoch * batch_size, "seconds": 2.0, "parameters": 1000,
            "config": resolved,
            "execution": {"mode": "alone", "device": "cpu", "devices": 1, "precision": "32-true", "threads": 1},
            "versions": {"normexp": "0.1.0", "torch": "2.15.0", "python": "3.11.7"},
            "command": f"python train.py norm={norm} batch_size={batch_size} seed={seed}",
            "finished": "2026-11-20T12:00:00+00:00",
        },
    )  # fmt: skip
    return folder


def write_metrics(folder: Path, norm: str, accuracies: list[float], lr: float) -> None:
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("step", "epoch", "seconds", "metric", "value"))
        for step, accuracy in zip(STEPS, accuracies, strict=True):
            row = {"val/accuracy": accuracy, "val/loss": 1 - accuracy, "train/loss": 0.9 - accuracy, "lr": lr}
            for depth, layer in enumerate(LAYERS):
                scale = 1.0 if norm != "none" else 0.5 ** (len(LAYERS) - depth)
                row[f"gradient_norm/{layer}"] = scale * (0.5 + 0.5 / (1 + step))
                row[f"saturated_fraction/{layer}"] = 0.1 * (depth + 1)
                for percentile, at in (("p15", -1.0), ("p50", 0.0), ("p85", 1.0)):
                    row[f"preactivation_{percentile}/{layer}"] = at * scale + 0.001 * step
            writer.writerows((step, step / 20, step / 100, name, repr(float(v))) for name, v in row.items())


def write_study(
    root: Path,
    norms: Iterable[str] = tuple(WORTH),
    batch_sizes: Iterable[int] = (2, 8, 32, 128),
    seeds: int = 5,
    **changes,
) -> Path:
    for norm, batch_size, seed in itertools.product(norms, batch_sizes, range(seeds)):
        write_run(root, norm, batch_size, seed, **changes)
    return Path(root)


def edit_summary(folder: Path, **changes) -> None:
    """As a run with other results would have written it."""
    summary = json.loads((folder / "summary.json").read_text()) | changes
    (folder / "summary.json").write_text(json.dumps(summary))


def write_after_sweep(folder: Path) -> Path | None:
    """Show what a sweep shows at its end, to nobody. Returns the folder of TensorBoard's means, if there are some."""
    shown = show_folder(folder, Console(quiet=True), metric="test/accuracy", better=None, events=True)
    return folder / FOLDER if shown else None
