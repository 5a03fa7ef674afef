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
    own, others = holds[~searched][inside], holds[~searched][~inside]
    table = [[own.sum(), len(own) - own.sum()], [others.sum(), len(others) - others.sum()]]
    p = float(stats.fisher_exact(table)[1])
    return When(in_words(path), int(own.sum()), len(own), int(others.sum()), len(others), p)


def over_all_claims(found: Mapping[str, When | None]) -> dict[str, When]:
    """Those of each claim that was searched, with whether they stay at 5% over all of them."""
    own = {name: one for name, one in found.items() if one is not None}
    stay = holm([one.p for one in own.values()]) <= ALPHA if own else ()
    return {name: replace(one, found=bool(s)) for (name, one), s in zip(own.items(), stay, strict=True)}


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
    for name in dict.fromkeys(key for own in labels for key in own):
        values = [own.get(name, "") for own in labels]
        try:
            middle = float(np.median([float(value) for value in values if value]))
            columns[name, ""] = [float(value) if value else middle for value in values]
        except ValueError:
            for value in sorted(set(values) - {""}):
                columns[name, value] = [float(one == value) for one in values]
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
        counted = self.name in COUNTS
        ends = [f"at least {self.low:,g}"] * (self.low > -math.inf)
        ends += [f"{'fewer than' if counted else 'below'} {self.high:,g}"] * (self.high < math.inf)
        words = " and ".join(ends)
        return f"{words} {self.name}" if counted else f"{self.name} {words}"


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
        own = path.get(column, Part(*column))
        walk(tree.children_left[node], path | {column: replace(own, high=min(own.high, bound))})
        walk(tree.children_right[node], path | {column: replace(own, low=max(own.low, bound))})

    walk(0, {})
    for more in (True, False):
        paths = [path for above, path in leaves if above == more]
        if len(paths) == 1 and len(leaves) > 1:
            return list(paths[0].values())
    return None


def meets(features: pd.DataFrame, path: Sequence[Part]) -> np.ndarray:
    """(n,) whether all conditions are met."""
    each = [features[one.name, one.value].between(one.low, one.high, inclusive="left") for one in path]
    return np.logical_and.reduce([own.to_numpy() for own in each])


def in_words(path: Sequence[Part]) -> str:
    """All conditions."""
    return " and ".join(map(str, path))
