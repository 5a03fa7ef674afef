"""Train runs: build their parts, and launch each alone or all side by side."""

from collections.abc import Sequence
from typing import Any

from normexp.config.run_spec import RunSpec
from normexp.training.build import build_all
from normexp.training.launch import launch, launch_replicas


def train(specs: Sequence[RunSpec], command: str = "") -> list[dict[str, Any]]:
    """Train runs that belong to one process; finished ones are skipped. Returns their summaries.

    Args:
        specs: one run, or runs that train side by side (`RunSpec.together`).
        command: the typed command line, for the summaries.

    Raises ValueError with one line before anything is written. An interrupted run exits with 128 plus the signal.
    """
    parts = build_all(specs, command=command)
    if len(parts) == 1 and not specs[0].together:
        return [launch(parts[0])]
    return launch_replicas(parts)
