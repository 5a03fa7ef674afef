"""When a claim holds: descriptors of settings are searched on one half of them, and the other half gives the numbers.

A tree of at most two splits always finds something. Only the half that it has not seen says whether it is true of other
settings, at 5% over all claims that were searched.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.judge.estimate import ALPHA, holm

FEWEST_SETTINGS = 48
SEED = "halves 2026-11-23"  # with the id of a claim, it halves the claim's settings
SPLITS, FEWEST_IN_LEAF = 2, 4
COUNTS = ("updates", "examples")  # descriptors of which there are "fewer than"


@dataclass(frozen=True)
class When:
    """Where a claim holds, by the half of its settings that was not searched.

    Attributes:
        where: the condition in words.
        holds, of: settings of that half that meet it, and those among them in which the claim holds.
        others_hold, others: the same of the settings that do not.
        p: Fisher's exact test that the shares are equal.
        found: whether they differ at 5% over all claims (Holm).
    """

    where: str
    holds: int
    of: int
    others_hold: int
    others: int
    p: float
    found: bool = False

    def __str__(self) -> str:
        return f"holds in {self.holds} of {self.of} with {self.where}, in {self.others_hold} of {self.others} others"


def when(claim: str, settings: Sequence[Mapping[str, Any]]) -> When | None:
    """Search the descriptors (`labels`) of settings for where the claim `holds`; None if there are fewer than 48, or no
    descriptor splits the searched half."""
    if len(settings) < FEWEST_SETTINGS:
        return None
    features = descriptors([row["labels"] for row in settings])
    holds = np.array([row["holds"] for row in settings], bool)
    searched = first_half(claim, [row["name"] for row in settings])
    path = search(features[searched], holds[searched])
    if path is None:
        return None
    inside = meets(features[~searched], path)
    holds_inside, others = holds[~searched][inside], holds[~searched][~inside]
    table = [
        [holds_inside.sum(), len(holds_inside) - holds_inside.sum()],
        [others.sum(), len(others) - others.sum()],
    ]
    p = float(stats.fisher_exact(table)[1])
    return When(in_words(path), int(holds_inside.sum()), len(holds_inside), int(others.sum()), len(others), p)


def over_all_claims(by_claim: Mapping[str, When | None]) -> dict[str, When]:
    """Those of each claim that was searched, with whether they stay at 5% over all of them."""
    searched = {name: result for name, result in by_claim.items() if result is not None}
    stay = holm([result.p for result in searched.values()]) <= ALPHA if searched else ()
    return {
        name: replace(result, found=bool(s)) for (name, result), s in zip(searched.items(), stay, strict=True)
    }


def first_half(claim: str, names: Sequence[str]) -> np.ndarray:
    """(n,) whether a setting is searched: half of them, in an order that the claim's id and the written seed give."""
    keys = [hashlib.sha256(f"{SEED}/{claim}/{name}".encode()).hexdigest() for name in names]
    chosen = np.zeros(len(names), bool)
    chosen[np.argsort(keys)[: len(names) // 2]] = True
    return chosen


def descriptors(labels: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    """One column per descriptor that is a number wherever it stands (the median where it does not), or per value of one
    in words (1 where it has it)."""
    columns: dict[tuple[str, str], list[float]] = {}
    for name in dict.fromkeys(key for setting_labels in labels for key in setting_labels):
        values = [setting_labels.get(name, "") for setting_labels in labels]
        try:
            middle = float(np.median([float(value) for value in values if value]))
            columns[name, ""] = [float(value) if value else middle for value in values]
        except ValueError:
            for value in sorted(set(values) - {""}):
                columns[name, value] = [float(entry == value) for entry in values]
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class Part:
    """One condition: a descriptor, its value if it is in words, and the numbers from `low` to below `high`."""

    name: str
    value: str
    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if self.value:
            return f"{self.name} {self.value}" if self.low > 0 else f"{self.name} other than {self.value}"
        is_count = self.name in COUNTS
        ends = [f"at least {self.low:,g}"] * (self.low > -math.inf)
        ends += [f"{'fewer than' if is_count else 'below'} {self.high:,g}"] * (self.high < math.inf)
        words = " and ".join(ends)
        return f"{words} {self.name}" if is_count else f"{self.name} {words}"


def search(features: pd.DataFrame, holds: np.ndarray) -> list[Part] | None:
    """The leaf of a tree in which the claim holds more often than in all settings together, or, if there are two, the
    one in which it holds less often: so one list of conditions says where. None if nothing splits the settings."""
    from sklearn.tree import DecisionTreeClassifier  # takes a second to import

    if holds.all() or not holds.any() or features.empty:
        return None
    model = DecisionTreeClassifier(max_leaf_nodes=SPLITS + 1, min_samples_leaf=FEWEST_IN_LEAF, random_state=0)
    tree = model.fit(features.to_numpy(), holds).tree_
    leaves: list[tuple[bool, dict[Any, Part]]] = []

    def walk(node: int, path: dict[Any, Part]) -> None:
        if tree.children_left[node] < 0:
            leaves.append((tree.value[node][0][1] > holds.mean(), path))
            return
        column = features.columns[tree.feature[node]]
        values = features[column]  # the bound is a value that occurs, which people can read
        bound = float(values[values > tree.threshold[node]].min())
        part = path.get(column, Part(*column))
        walk(tree.children_left[node], path | {column: replace(part, high=min(part.high, bound))})
        walk(tree.children_right[node], path | {column: replace(part, low=max(part.low, bound))})

    walk(0, {})
    for more in (True, False):
        paths = [path for above, path in leaves if above == more]
        if len(paths) == 1 and len(leaves) > 1:
            return list(paths[0].values())
    return None


def meets(features: pd.DataFrame, path: Sequence[Part]) -> np.ndarray:
    """(n,) whether all conditions are met."""
    met_by_part = [
        features[part.name, part.value].between(part.low, part.high, inclusive="left") for part in path
    ]
    return np.logical_and.reduce([met.to_numpy() for met in met_by_part])


def in_words(path: Sequence[Part]) -> str:
    """All conditions."""
    return " and ".join(map(str, path))
