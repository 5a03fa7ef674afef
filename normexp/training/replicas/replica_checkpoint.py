"""Split the joint checkpoint of replicas into checkpoints of single runs, and join these again."""

from typing import Any

import torch
from torch import Tensor

RATES = {"lr", "initial_lr", "base_lrs", "_last_lr"}  # names of learning rates in optimizers and schedules
SHARED = {"step", "mu_product"}  # state of an optimizer that all replicas share


def part_of(checkpoint: dict[str, Any], index: int, share: float) -> dict[str, Any]:
    """The checkpoint that replica `index` would save alone, without callbacks. Its rate is `share` times the common
    rate."""

    def own(values: dict[str, Any]) -> dict[str, Any]:
        return {name: value[index].clone() if _own(name, value) else value for name, value in values.items()}

    (optimizer,) = checkpoint["optimizer_states"]
    state = {weight: own(values) for weight, values in optimizer["state"].items()}
    groups = [scaled(group, share) for group in optimizer["param_groups"]]
    return {
        **checkpoint,
        "state_dict": own(checkpoint["state_dict"]),
        "optimizer_states": [{"state": state, "param_groups": groups}],
        "lr_schedulers": [scaled(schedule, share) for schedule in checkpoint["lr_schedulers"]],
    }


def put_together(checkpoints: list[dict[str, Any]], fastest: int) -> dict[str, Any]:
    """Join the checkpoints of replicas into one. The shared state comes from the replica `fastest`, which has the
    largest rate: its rates and schedule are the common ones."""

    def all_of(own: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            name: torch.stack([values[name] for values in own]) if _own(name, value) else value
            for name, value in own[fastest].items()
        }

    first = checkpoints[fastest]
    (optimizer,) = first["optimizer_states"]
    states = [checkpoint["optimizer_states"][0]["state"] for checkpoint in checkpoints]
    state = {weight: all_of([own[weight] for own in states]) for weight in optimizer["state"]}
    return {
        **first,
        "state_dict": all_of([checkpoint["state_dict"] for checkpoint in checkpoints]),
        "optimizer_states": [{**optimizer, "state": state}],
        "callbacks": {"EachReplica": {"own": [checkpoint["callbacks"] for checkpoint in checkpoints]}},
    }


def scaled(state: dict[str, Any], share: float) -> dict[str, Any]:
    """A parameter group or a schedule with `share` times its learning rates."""
    changed = {
        name: [rate * share for rate in state[name]] if isinstance(state[name], list) else state[name] * share
        for name in RATES & state.keys()
    }
    return {**state, **changed}


def _own(name: str, value: Any) -> bool:
    return isinstance(value, Tensor) and name not in SHARED
