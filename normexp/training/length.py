"""How long a run trains: its steps, epochs and samples.

A step is one optimizer update. Under accumulation it has several batches; the last step of an epoch has those that are
left.
"""

import math
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl

from normexp.data.base import DataModule


@dataclass(frozen=True)
class Pace:
    """Steps, epochs and batches of a run in terms of each other.

    Args:
        batches: of an epoch.
        per_step: batches of a step, `trainer.accumulate_grad_batches`.
    """

    batches: int
    per_step: int = 1

    @classmethod
    def of(cls, trainer: pl.Trainer) -> "Pace":
        return cls(int(trainer.num_training_batches), trainer.accumulate_grad_batches)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return math.ceil(self.batches / self.per_step)

    def batches_after(self, step: int) -> int:
        """Batches that the first `step` steps have trained on."""
        epochs, rest = divmod(step, self.steps)
        return epochs * self.batches + rest * self.per_step

    def epochs_after(self, step: int) -> float:
        """Passes over the data in the first `step` steps."""
        return self.batches_after(step) / self.batches

    def step_of(self, batch: int) -> int:
        """The step, from 1, to which a batch of the run, from 0, belongs."""
        epochs, rest = divmod(batch, self.batches)
        return epochs * self.steps + rest // self.per_step + 1


def total_steps(config: dict[str, Any], data: DataModule) -> int:
    """Optimizer steps of the whole run."""
    if config["max_steps"] is not None:
        return config["max_steps"]
    trainer = config["trainer"]
    batches = len(data.training_order(data.splits["train"]))
    limit = trainer.get("overfit_batches") or trainer.get("limit_train_batches")
    if limit is not None:  # Lightning's rule: a number of batches, or a fraction of them
        batches = min(batches, limit) if isinstance(limit, int) else int(batches * limit)
    return config["max_epochs"] * Pace(batches, trainer.get("accumulate_grad_batches", 1)).steps


def length(config: dict[str, Any]) -> dict[str, Any]:
    """Trainer arguments: how long to train, and how often to validate."""
    every, steps = config["val_every_n_steps"], config["max_steps"]
    if steps is not None and every is None:
        every = max(1, steps // 10)
    arguments = (
        {"max_epochs": config["max_epochs"]} if steps is None else {"max_steps": steps, "max_epochs": -1}
    )
    if every is not None:
        # Lightning's own loop counts batches here, the loop in epoch_loop.py counts steps.
        arguments |= {"val_check_interval": every, "check_val_every_n_epoch": None}
    return arguments
