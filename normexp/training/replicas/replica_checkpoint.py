"""Checkpoints of replicas: that of all taken apart into those of runs alone, and those put together again."""

from typing import Any

import torch
from torch import Tensor

from normexp.training.replicas.replica_module import ReplicaModule

RATES = {
    "lr",
    "initial_lr",
    "base_lrs",
    "_last_lr",
}  # what a learning rate is called by optimizers and schedules


def take_apart(checkpoint: dict[str, Any], index: int, factor: float) -> None:
    """Leave, of optimizers and schedules, what the replica `index` would have alone, whose rate is `factor` times the
    shared one."""
    for optimizer in checkpoint.get("optimizer_states", []):
        optimizer["state"] = {
            parameter: {
                # what has no axes (Adam's step) is shared
                name: value[index].clone() if isinstance(value, Tensor) and value.dim() else value
                for name, value in values.items()
            }
            for parameter, values in optimizer["state"].items()
        }
        optimizer["param_groups"] = [_scaled(group, factor) for group in optimizer["param_groups"]]
    checkpoint["lr_schedulers"] = [_scaled(state, factor) for state in checkpoint.get("lr_schedulers", [])]


def _scaled(state: dict[str, Any], factor: float) -> dict[str, Any]:
    scaled = dict(state)
    for name in RATES & state.keys():
        value = state[name]
        scaled[name] = [rate * factor for rate in value] if isinstance(value, list) else value * factor
    return scaled


def put_together(checkpoints: list[dict[str, Any]], module: ReplicaModule, fastest: int) -> dict[str, Any]:
    """What all replicas resume from together. Rates and schedule are those of the replica with the largest rate, which
    are the shared ones; callbacks restore themselves from their own."""
    states = [checkpoint["state_dict"] for checkpoint in checkpoints]
    weights = module.state_dict()
    for key, name in module.own_names().items():
        if f"model.{name}" in states[0]:  # not so for buffers that are made anew
            weights[key] = torch.stack([state[f"model.{name}"] for state in states])
    optimizers = []
    for own in zip(*(checkpoint["optimizer_states"] for checkpoint in checkpoints), strict=True):
        state = {
            parameter: {
                name: _stacked(name, [other["state"][parameter][name] for other in own]) for name in values
            }
            for parameter, values in own[0]["state"].items()
        }
        optimizers.append({**own[fastest], "state": state})
    return {**checkpoints[fastest], "state_dict": weights, "optimizer_states": optimizers, "callbacks": {}}


def _stacked(name: str, values: list[Any]) -> Any:
    return torch.stack(values) if isinstance(values[0], Tensor) and name != "step" else values[0]
