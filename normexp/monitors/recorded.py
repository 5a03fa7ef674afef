"""A monitor's values in a checkpoint, packed into a few tensors: many Python objects would take a second to read."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

Recorded = Mapping[str, Sequence[tuple[int, float]]]  # tag -> (step, value)


def packed(recorded: Recorded) -> dict[str, Any]:
    """Pack the series of (step, value) of all tags into a few tensors, for a checkpoint."""
    pairs = [pair for series in recorded.values() for pair in series]
    return {
        "tags": list(recorded),
        "lengths": [len(series) for series in recorded.values()],
        "steps": torch.tensor([step for step, _ in pairs], dtype=torch.int64),
        "values": torch.tensor([value for _, value in pairs], dtype=torch.float64),
    }


def unpacked(state: Mapping[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """The inverse of `packed`."""
    pairs = iter(zip(state["steps"].tolist(), state["values"].tolist(), strict=True))
    return {
        tag: [next(pairs) for _ in range(length)]
        for tag, length in zip(state["tags"], state["lengths"], strict=True)
    }
