"""The runs that one process trains for a claim: a single run, or replicas."""

from dataclasses import dataclass
from typing import Any

from normexp.build import build
from normexp.config.run_parts import Parts
from normexp.training.launch import launch, launch_replicas


@dataclass
class TrainCall:
    """Runs as composed.

    Args:
        composed: configuration, choices and files for `.hydra/` of each run.
        replicas: train the runs as replicas, even a single one.
        command: the command line that asked for them.
    """

    composed: list[tuple[Any, dict[str, str], dict[str, str]]]
    replicas: bool
    command: str


def train(call: TrainCall) -> None:
    """Target of a process."""
    parts: list[Parts] = []
    for cfg, choices, files in call.composed:
        loaded = [other.data for other in parts]
        parts.append(build(cfg, choices, files=files, command=call.command, loaded=loaded))
    if call.replicas:
        launch_replicas(parts)
    else:
        launch(parts[0])
