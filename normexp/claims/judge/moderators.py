"""Whether a claim holds more often on one side of what the literature named beforehand: convolutions, batch size,
depth and activation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from normexp.claims.judge.estimate import holm

FEWEST_A_SIDE = 3  # settings
KINDS = {  # label -> its values on the first side, and the names of both
    "model": (("CNN", "ResNet"), "with", "without"),
    "activation": (("sigmoid", "tanh", "hardtanh"), "saturating", "other"),
}


def moderators(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The count on both sides of each moderator, with Fisher's exact p after Holm over those that have three settings
    on each side. A row is a setting of `count`: holds, labels."""
    splits = {"convolutions": _of_kind("model", rows), "batch size": _halves("batch size", rows)}
    splits |= {"depth": _halves("depth", rows), "activation": _of_kind("activation", rows)}
    found = []
    for name, groups in splits.items():
        counts: dict[str, list[int]] = {}
        for row, group in zip(rows, groups, strict=True):
            if group:
                holds_and_n = counts.setdefault(group, [0, 0])
                holds_and_n[0] += row["holds"]
                holds_and_n[1] += 1
        if len(counts) == 2 and min(n for _, n in counts.values()) >= FEWEST_A_SIDE:
            p = stats.fisher_exact([[holds, n - holds] for holds, n in counts.values()]).pvalue
            found.append({"name": name, "groups": counts, "p": float(p)})
    adjusted = holm([moderator["p"] for moderator in found]).tolist()
    return [moderator | {"p": float(p)} for moderator, p in zip(found, adjusted, strict=True)]


def _of_kind(label: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The side of each row by a label; empty where it has none."""
    names, inside, outside = KINDS[label]
    own = [row["labels"].get(label) for row in rows]
    return ["" if value is None else inside if value in names else outside for value in own]


def _halves(label: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Up to the median of the settings, and above it."""
    texts = [row["labels"].get(label, "") for row in rows]
    numbers = [float(text) if text.replace(".", "", 1).isdecimal() else None for text in texts]
    known = [number for number in numbers if number is not None]
    if not known:
        return [""] * len(rows)
    middle = float(np.median(known))
    words = f"up to {middle:g}", f"above {middle:g}"
    return ["" if number is None else words[number > middle] for number in numbers]
