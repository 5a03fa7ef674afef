"""How long a run trains, and how often it validates."""

import math
from typing import Any

from normexp.data.base import DataModule


def total_steps(config: dict[str, Any], data: DataModule) -> int:
    """Optimizer steps of the whole run. The last batches of an epoch make a step even if they are too few to
    accumulate."""
    if config["max_steps"] is not None:
        return config["max_steps"]
    batches = len(data.training_order(data.splits["train"]))
    return config["max_epochs"] * math.ceil(batches / config["trainer"].get("accumulate_grad_batches", 1))


def length(config: dict[str, Any]) -> dict[str, Any]:
    """Trainer arguments: how long to train, and how often to validate."""
    every, steps = config["val_every_n_steps"], config["max_steps"]
    if steps is not None and every is None:
        every = max(1, steps // 10)
    arguments = (
        {"max_epochs": config["max_epochs"]} if steps is None else {"max_steps": steps, "max_epochs": -1}
    )
    if every is not None:
        arguments |= {"val_check_interval": every, "check_val_every_n_epoch": None}
    return arguments
