"""Split the joint checkpoint of replicas into checkpoints of single runs, and join these again."""

from typing import Any

import torch
from torch import Tensor

DIFFERENT = ("state_dict", "optimizer_states", "lr_schedulers")  # what is not the same in all replicas
RATES = {"lr", "initial_lr", "base_lrs", "_last_lr"}  # names of learning rates in optimizers and schedules
SHARED = {"step", "mu_product"}  # state of an optimizer that all replicas share


def part_of(checkpoint: dict[str, Any], index: int, share: float) -> dict[str, Any]:
    """The checkpoint that replica `index` would save alone, without callbacks. Its rate is `share` times the common
    rate."""

    def own(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: own(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [own(name, item) for item in value]
        if name in RATES:
            return value * share
        return value[index].clone() if _of_each(name, value) else value

    return checkpoint | {name: own(name, checkpoint[name]) for name in DIFFERENT}


def put_together(checkpoints: list[dict[str, Any]], fastest: int) -> dict[str, Any]:
    """Join the checkpoints of replicas into one. The shared state comes from the replica `fastest`, which has the
    largest rate: its rates and schedule are the common ones."""

    def common(name: str, values: list[Any]) -> Any:
        value = values[fastest]
        if isinstance(value, dict):
            return {key: common(key, [own[key] for own in values]) for key in value}
        if isinstance(value, list):
            return [common(name, list(items)) for items in zip(*values, strict=True)]
        return torch.stack(values) if _of_each(name, value) else value

    joined = {name: common(name, [own[name] for own in checkpoints]) for name in DIFFERENT}
    callbacks = {f"replica {index}": own["callbacks"] for index, own in enumerate(checkpoints)}
    return checkpoints[fastest] | joined | {"callbacks": callbacks}


def _of_each(name: str, value: Any) -> bool:
    return isinstance(value, Tensor) and name not in SHARED
