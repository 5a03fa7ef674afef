"""All that a finished run left, but what clocks decide, and the first difference of two runs."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from recorded import curve
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TIMES = ("seconds", "finished")


def results(folder: Path) -> dict[str, Any]:
    """What must be equal of an interrupted run and of a whole one."""
    summary = json.loads((folder / "summary.json").read_text())
    summary["first"].pop("started")
    summary["convergence"] = {k: v for k, v in summary["convergence"].items() if "seconds" not in k}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    best = folder / "checkpoints" / "best.ckpt"
    return {
        # A kill between the summary and the unlink leaves an empty lock that nobody holds.
        "files": sorted(name for name in files - {".lock"} if "tfevents" not in name),
        "summary": {key: value for key, value in summary.items() if key not in TIMES},
        "rows": curve(folder),
        "events": events(folder),
        "test examples": (folder / "test_examples.npz").read_bytes(),
        "last.ckpt": checkpoint(folder / "checkpoints" / "last.ckpt"),
        "best.ckpt": checkpoint(best) if best.exists() else None,
    }


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard draws: tag -> its points, each as often as it was written."""
    seen = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    tags = seen.Tags()["scalars"]
    return {tag: sorted((event.step, str(event.value)) for event in seen.Scalars(tag)) for tag in tags}


def checkpoint(path: Path) -> dict[str, Any]:
    """Weights, optimizer, loops, generators and what callbacks remember, without clocks and places."""
    content = torch.load(path, weights_only=True)
    content.pop("recorded")  # the length of a file: clocks have no fixed number of digits
    content.pop("events", None)  # lengths and names of files: a launch is a file
    content["run"]["first"].pop("started")
    for name, state in content["callbacks"].items():
        for key in ("seconds", "clock", "history"):
            state.pop(key, None)
        if name.startswith("ModelCheckpoint"):
            content["callbacks"][name] = {"best": state["best_model_score"]}
    return content


def difference(one: Any, other: Any, where: str = "") -> str | None:
    """The first place where two results differ, in words; None where they are the same."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return None if same_bits(one, other) else f"{where}: other numbers"
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
    else:
        both_nan = isinstance(one, float) and math.isnan(one) and math.isnan(other)
        return None if one == other or both_nan else f"{where}: {str(one)[:300]} and {str(other)[:300]}"
    return next((found for place, a, b in pairs if (found := difference(a, b, place))), None)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and torch.equal(one.nan_to_num(), other.nan_to_num())
