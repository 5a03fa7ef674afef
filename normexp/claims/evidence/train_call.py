"""What one process trains for a claim: a run alone, or replicas side by side."""

from dataclasses import dataclass
from typing import Any

from normexp.build import build
from normexp.config.run_parts import Parts
from normexp.training.launch import launch
from normexp.training.replicas.launch_replicas import launch_replicas


@dataclass
class TrainCall:
    """Runs as composed.

    Args:
        composed: of each run, its configuration, choices, and files for `.hydra/`.
        replicas: train them in one process, as replicas, even a single one.
        command: the command line that asks for them.
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
