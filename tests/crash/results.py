"""Everything that a run left, in a form for comparing two runs: without times, paths and processes."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

TIMES = ("finished", "seconds")


def results(folder: Path) -> dict[str, Any]:
    """The results of a finished run that must not depend on how often it was stopped."""
    checkpoints = folder / "checkpoints"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {
        "files": sorted(name for name in files if "tfevents" not in name),
        "summary": summary(folder),
        "rows": rows(folder),
        "events": events(folder),
        "test examples": (folder / "test_examples.npz").read_bytes(),
        "last.ckpt": checkpoint(checkpoints / "last.ckpt"),
        "best.ckpt": checkpoint(checkpoints / "best.ckpt") if (checkpoints / "best.ckpt").exists() else None,
    }


def summary(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "summary.json").read_text())
    found["first"].pop("started")
    found.pop("digests")  # of files that hold times
    found["convergence"] = {key: value for key, value in found["convergence"].items() if "seconds" not in key}
    return {key: value for key, value in found.items() if key not in TIMES}


def rows(folder: Path) -> list[tuple[str, ...]]:
    """Of `metrics.csv`, in their order."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [
            tuple(row[name] for name in ("step", "epoch", "metric", "value")) for row in csv.DictReader(file)
        ]


def events(folder: Path) -> list[tuple[int, str, str]]:
    """Everything in TensorBoard's files, in their order: step, tag, value; of a figure its tag, as it shows times."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                plugin = value.metadata.plugin_data.plugin_name
                shown = "" if plugin in ("images", "hparams") else str(value.tensor)
                found.append((event.step, value.tag, shown))
    return found


def checkpoint(path: Path) -> dict[str, Any]:
    """Weights, optimizer, loops, generators and what callbacks remember, without their clocks."""
    content = torch.load(path, weights_only=True)
    content.pop("recorded")  # lengths of files: clocks have no fixed number of digits
    for state in content["callbacks"].values():
        for name in ("seconds", "clock", "history", "cost"):
            state.pop(name, None)
        state.get("first", {}).pop("started", None)
    return content


def difference(one: Any, other: Any, where: str = "", *, near: float = 0.0) -> str | None:
    """The first place where two results differ, in words; None where they are the same.

    Args:
        near: numbers that differ by no more count as the same; numbers in a text too.
    """
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return None if alike and close(one, other, near) else f"{where}: other numbers"
    if near and isinstance(one, (str, bytes)) and isinstance(other, (str, bytes)) and one != other:
        one, other = in_parts(one), in_parts(other)
    if type(one) is not type(other):
        return f"{where}: {one!r} and {other!r}"
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return f"{where}: keys {sorted(map(str, one.keys() ^ other.keys()))}"
        pairs = [(f"{where}/{key}", one[key], other[key]) for key in one]
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            first = next((a for a, b in zip(one, other, strict=False) if a != b), "the longer one's end")
            return f"{where}: {len(one)} and {len(other)} entries, the first that differs: {str(first)[:200]}"
        pairs = [(f"{where}[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    elif isinstance(one, float) and isinstance(other, float):
        same = math.isclose(one, other, rel_tol=near, abs_tol=near) or (math.isnan(one) and math.isnan(other))
        return None if same else f"{where}: {one!r} and {other!r}"
    else:
        return None if one == other else f"{where}: {str(one)[:300]} and {str(other)[:300]}"
    return next((found for place, a, b in pairs if (found := difference(a, b, place, near=near))), None)


def close(one: torch.Tensor, other: torch.Tensor, near: float) -> bool:
    # Losses of test examples are kept as float32: those that differ in float64's last digits may round to neighbors.
    if near and one.dtype == torch.float32:
        near = max(near, torch.finfo(torch.float32).eps)
    return torch.allclose(one.double(), other.double(), rtol=near, atol=near, equal_nan=True)


def in_parts(content: str | bytes) -> Any:
    """The words of a text, numbers among them as such; the arrays of a file of arrays."""
    if isinstance(content, str):
        words = [as_number(word) for word in content.split()]
        return words[0] if len(words) == 1 else words
    with np.load(io.BytesIO(content)) as arrays:
        return {
            name: array.tolist() if array.dtype.kind == "U" else torch.from_numpy(array)
            for name, array in arrays.items()
        }


def as_number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word
