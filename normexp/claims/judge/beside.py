"""What stands beside the share of a comparison over settings: how often the sign alone is the claimed one, what the
literature names as moderators, and what two copies of one arm would score."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from normexp.claims.judge.comparison import TRENDS, Comparison
from normexp.claims.judge.estimate import holm
from normexp.claims.judge.outcomes import Setting

Row = Mapping[str, Any]  # a setting of `count`: number, margin, holds, labels, learned
CLAIMED = {"greater": 1, "increasing": 1, "smaller": -1, "decreasing": -1}
SATURATING = ("sigmoid", "tanh", "hardtanh")
CONVOLUTIONAL = ("CNN", "ResNet")
FEWEST_A_SIDE = 3  # settings


def direction(rows: Sequence[Row], comparison: Comparison) -> dict[str, Any] | None:
    """In how many settings the effect has the claimed sign, whatever its size, with the exact binomial p against one
    half. An effect of 0 has no sign. None for a sentence that claims none."""
    no_worse = not isinstance(comparison.margin, str) and comparison.margin < 0
    alone = (
        comparison.baseline is None and comparison.kind not in TRENDS
    )  # the sign of a value against a number
    if comparison.kind not in CLAIMED or no_worse or alone:
        return None
    signs = [CLAIMED[comparison.kind] * row["number"] for row in rows if row["number"]]
    if not signs:
        return None
    claimed = sum(sign > 0 for sign in signs)
    return {"claimed": claimed, "of": len(signs), "p": float(stats.binomtest(claimed, len(signs)).pvalue)}


def moderators(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The share on both sides of each moderator that the literature named beforehand: convolutions, batch size, depth
    and activation. Fisher's exact p, after Holm over those that have three settings on each side."""
    found = []
    for name, groups in _SPLITS.items():
        counts: dict[str, list[int]] = {}
        for row, group in zip(rows, groups([row["labels"] for row in rows]), strict=True):
            if group:
                holds_and_n = counts.setdefault(group, [0, 0])
                holds_and_n[0] += row["holds"]
                holds_and_n[1] += 1
        if len(counts) == 2 and min(n for _, n in counts.values()) >= FEWEST_A_SIDE:
            p = stats.fisher_exact([[holds, n - holds] for holds, n in counts.values()]).pvalue
            found.append({"name": name, "groups": counts, "p": float(p)})
    adjusted = holm([moderator["p"] for moderator in found]).tolist()
    return [moderator | {"p": float(p)} for moderator, p in zip(found, adjusted, strict=True)]


def _either(key: str, names: Sequence[str], inside: str, outside: str) -> Callable[[Sequence], list[str]]:
    def groups(labels: Sequence[Mapping[str, str]]) -> list[str]:
        return [(inside if own[key] in names else outside) if key in own else "" for own in labels]

    return groups


def _halves(key: str) -> Callable[[Sequence], list[str]]:
    """Up to the median of the settings, and above it."""

    def groups(labels: Sequence[Mapping[str, str]]) -> list[str]:
        numbers = [
            float(own[key]) if own.get(key, "").replace(".", "", 1).isdecimal() else None for own in labels
        ]
        known = [number for number in numbers if number is not None]
        if not known:
            return [""] * len(labels)
        middle = float(np.median(known))
        words = f"up to {middle:g}", f"above {middle:g}"
        return ["" if number is None else words[number > middle] for number in numbers]

    return groups


_SPLITS: dict[str, Callable[[Sequence], list[str]]] = {
    "convolutions": _either("model", CONVOLUTIONAL, "with", "without"),
    "batch size": _halves("batch size"),
    "depth": _halves("depth"),
    "activation": _either("activation", SATURATING, "saturating", "other"),
}


def ceiling(settings: Sequence[Setting], margins: Sequence[float], comparison: Comparison) -> float | None:
    """The expected number of these settings in which an arm and its copy with other seeds lie within the margin.

    The difference of two seeds of one arm, divided by the root of the number n of seeds, has the variance of the
    difference of two means over n seeds. All pairs of seeds of both arms are taken. None where the sentence is no
    equivalence of two arms, or an arm has one seed.
    """
    if comparison.kind != "equivalent" or comparison.baseline is None:
        return None
    expected = 0.0
    for setting, margin in zip(settings, margins, strict=True):
        differences = [
            (one - other) / math.sqrt(len(seeds))
            for arm in (comparison.named_arm, comparison.baseline)
            for seeds in [_values(setting, arm, comparison)]
            for one, other in combinations(seeds, 2)
        ]
        if not differences:
            return None
        expected += float((np.abs(differences) <= margin).mean())
    return expected


def _values(setting: Setting, arm: str, comparison: Comparison) -> list[float]:
    """The value of each seed of an arm, as the comparison compares it; a failed run counts as a guess."""
    levels = [level for name, level in setting.outcomes if name == arm and comparison.at in (None, level)]
    per_level = []
    for level in levels:
        outcomes = setting.outcomes[arm, level]
        if setting.guess is not None:
            outcomes = outcomes.guessing(setting.guess)
        values = outcomes.values[~outcomes.failed] + (setting.answer / 2 if comparison.log else 0.0)
        per_level.append(np.log(values) if comparison.log else values)
    n = min(map(len, per_level), default=0)
    return np.mean([values[:n] for values in per_level], axis=0).tolist() if n else []
