"""What a claim depends on: whether it holds more often on one side of a moderator (Fisher's exact test)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from scipy import stats

from normexp.claims.judge.estimate import ALPHA, holm

FEWEST_A_SIDE = 3  # settings
SIDES = {  # label -> its last word in small letters, and the side of each; another word is on none
    "model": dict.fromkeys(("cnn", "resnet"), "with")
    | dict.fromkeys(("mlp", "transformer", "gpt"), "without"),
    "activation": dict.fromkeys(("sigmoid", "tanh"), "saturating")
    | dict.fromkeys(("relu", "relu2", "gelu", "silu", "linear", "identity"), "other"),
}
Labels = Sequence[Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Moderator:
    """A moderator that could be tested."""

    name: str
    groups: Mapping[str, tuple[int, int]]  # side -> settings in which the claim holds, and settings
    p: float  # Fisher's exact p, after Holm over the moderators of one claim

    @property
    def depends(self) -> bool:
        """Whether the claim depends on it."""
        return self.p <= ALPHA


def moderators(holds: Sequence[bool], labels: Labels) -> tuple[Moderator, ...]:
    """The count on both sides of each moderator (convolutions, batch size, depth, activation) with Fisher's exact p
    after Holm over those that could show it, which have three settings on each side and not nearly all settings hold or
    fail. `holds` and `labels` are of the settings that have a number."""
    sides = {"convolutions": _of_kind("model", labels), "batch size": _halves("batch size", labels)}
    sides |= {"depth": _halves("depth", labels), "activation": _of_kind("activation", labels)}
    held, found = pd.Series(holds, dtype=int), []
    for name, of_rows in sides.items():
        counts = held.groupby(of_rows, sort=False).agg(["sum", "size"])
        if len(counts) == 2 and counts["size"].min() >= FEWEST_A_SIDE:
            (k, n), (other_k, other_n) = counts.to_numpy().tolist()
            most = min(k + other_k, n)  # all that hold on one side, or as few as may be
            least = max(0, k + other_k - other_n)
            if min(_fisher(i, n, k + other_k - i, other_n) for i in (least, most)) <= ALPHA:
                groups = {str(side): (int(row["sum"]), int(row["size"])) for side, row in counts.iterrows()}
                found.append(Moderator(name=name, groups=groups, p=_fisher(k, n, other_k, other_n)))
    adjusted = holm([m.p for m in found]).tolist()
    return tuple(replace(m, p=p) for m, p in zip(found, adjusted, strict=True))


def _fisher(k: int, n: int, other_k: int, other_n: int) -> float:
    return float(stats.fisher_exact([[k, n - k], [other_k, other_n - other_k]]).pvalue)


def _of_kind(label: str, labels: Labels) -> pd.Series:
    """The side of each setting by a label; None where it has none, or one that nobody here knows."""
    words = (str(row.get(label) or None).lower().split() for row in labels)
    return pd.Series([SIDES[label].get(word) for *_, word in words], dtype=object)


def _halves(label: str, labels: Labels) -> pd.Series:
    """Up to the median of the settings, and above it."""
    numbers = pd.to_numeric(pd.Series([row.get(label) for row in labels]), errors="coerce")
    middle = numbers.median()
    names = {False: f"up to {middle:g}", True: f"above {middle:g}"}
    return (numbers > middle).map(names).where(numbers.notna())
