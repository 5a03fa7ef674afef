"""When a claim holds: descriptors of settings are searched on one half of them, and the other half gives the numbers.

A tree of at most two splits always finds something. Only the half that it has not seen says whether it is true of other
settings, at 5% over all claims that were searched.
"""

import hashlib
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
    region = _region(features[searched], holds[searched])
    if region is None:
        return None
    inside = _inside(features[~searched], region)
    own, others = holds[~searched][inside], holds[~searched][~inside]
    table = [[own.sum(), len(own) - own.sum()], [others.sum(), len(others) - others.sum()]]
    p = float(stats.fisher_exact(table)[1])
    words = " or ".join(" and ".join(_words(one) for one in path) for path in region)
    return When(words, int(own.sum()), len(own), int(others.sum()), len(others), p)


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
    """One column per descriptor that is a number in every setting, or per value of one in words (1 where it has it)."""
    columns: dict[tuple[str, str], list[float]] = {}
    for name in dict.fromkeys(key for own in labels for key in own):
        values = [own.get(name, "") for own in labels]
        try:
            columns[name, ""] = [float(value) for value in values]
        except ValueError:
            for value in sorted(set(values) - {""}):
                columns[name, value] = [float(one == value) for one in values]
    return pd.DataFrame(columns)


Condition = tuple[tuple[str, str], bool, float]  # column, whether above, threshold
Region = list[list[Condition]]  # any of these paths, all of whose conditions hold


def _region(features: pd.DataFrame, holds: np.ndarray) -> Region | None:
    """The leaves of a tree in which the claim holds more often than in all settings together."""
    from sklearn.tree import DecisionTreeClassifier  # takes a second to import

    tree = DecisionTreeClassifier(max_leaf_nodes=SPLITS + 1, min_samples_leaf=FEWEST_IN_LEAF, random_state=0)
    if holds.all() or not holds.any() or features.empty:
        return None
    grown = tree.fit(features.to_numpy(), holds).tree_
    paths: Region = []

    def walk(node: int, path: list[Condition]) -> None:
        left, right = grown.children_left[node], grown.children_right[node]
        if left < 0:
            if grown.value[node][0][1] > holds.mean():
                paths.append(path)
            return
        column = features.columns[grown.feature[node]]
        bound = _between(features[column].to_numpy(), float(grown.threshold[node]))
        walk(left, [*path, (column, False, bound)])
        walk(right, [*path, (column, True, bound)])

    walk(0, [])
    return paths if paths and paths != [[]] else None


def _between(values: np.ndarray, threshold: float) -> float:
    """The smallest value above a threshold, which people can read."""
    return float(values[values > threshold].min())


def _inside(features: pd.DataFrame, region: Region) -> np.ndarray:
    paths = [
        np.logical_and.reduce([(features[column] >= bound) == above for column, above, bound in path])
        for path in region
    ]
    return np.logical_or.reduce(paths)


def _words(condition: Condition) -> str:
    (name, value), above, bound = condition
    if value:
        return f"{name} {value}" if above else f"{name} other than {value}"
    return f"{name} of at least {bound:g}" if above else f"{name} below {bound:g}"
