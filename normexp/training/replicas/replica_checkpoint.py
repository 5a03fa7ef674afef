"""Checkpoints of replicas: that of all taken apart into those of runs alone, and those put together again."""

from typing import Any

import torch
from torch import Tensor

RATES = {"lr", "initial_lr", "base_lrs", "_last_lr"}  # what optimizers and schedules call a learning rate
SHARED = {"step", "mu_product"}  # what an optimizer counts once for all replicas


def part_of(checkpoint: dict[str, Any], index: int, share: float) -> dict[str, Any]:
    """What the replica `index`, whose rate is `share` times the shared one, would save alone, but for callbacks."""

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
    """What replicas resume from together, of their own checkpoints. All that they share is of the one with the largest
    rate, whose rates and schedule are the shared ones."""

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
