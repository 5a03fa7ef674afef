"""Intervals and tests: of the mean over seeds in one setting (Student's t), of a share of settings (Clopper and
Pearson), of a median over settings (sign test), and of what a claim depends on (Fisher's exact test)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.kinds import Region
from normexp.runs.table import FEWEST_FOR_INTERVAL, t_quantile

ALPHA = 0.05
Ends = tuple[float, float]
FEWEST_A_SIDE = 3  # settings
SIDES = {  # label -> its values on the first side, and the names of both
    "model": (("CNN", "ResNet"), "with", "without"),
    "activation": (("sigmoid", "tanh", "hardtanh"), "saturating", "other"),
}
Labels = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class SeedMean:
    """The mean of paired effects, one a seed, with Student's t interval, exact for normal effects at every n.

    An error of 0 means that the measure resolved nothing: the interval is infinite and p is 1, as of fewer than three
    seeds. If values are `exact`, it is a proof: the interval has width 0.
    """

    effect: float
    error: float  # of the mean
    df: float
    exact: bool = False

    @classmethod
    def of(cls, effects: np.ndarray, *, exact: bool = False) -> "SeedMean":
        """The mean of effects (n,)."""
        n = len(effects)
        # Exactly 0 for equal values, whose mean may be rounded.
        error = float(effects.std(ddof=1)) / math.sqrt(n) if n > 1 and np.ptp(effects) else 0.0
        return cls(float(effects.mean()) if n else math.nan, error, n - 1.0, exact)

    def interval(self, level: float) -> Ends:
        """The ends of the interval."""
        if not self.error or self.df < FEWEST_FOR_INTERVAL - 1:
            return (self.effect, self.effect) if self.exact else (-math.inf, math.inf)
        half = self.error * float(t_quantile(level, self.df))
        return self.effect - half, self.effect + half

    def p_within(self, region: Region) -> float:
        """The smallest alpha whose (1 - alpha) interval lies within one part of the region; 1 if none does."""
        distance = max(min(self.effect - low, high - self.effect) for low, high in region)
        few = not self.exact and self.df < FEWEST_FOR_INTERVAL - 1
        if not distance > 0 or not (self.error or self.exact) or few:
            return 1.0
        return float(2 * stats.t.sf(distance / self.error, self.df)) if self.error else 0.0

    def p_of(self, comparison: Comparison, margin: float) -> float:
        """The smallest alpha at which a comparison is supported or refuted."""
        rule = comparison.rule
        return min(self.p_within(rule.region(margin)), self.p_within(rule.complement(margin)))


def share_interval(count: int, of: int, level: float) -> Ends:
    """Clopper and Pearson's interval of a share: it misses in at most 1 - level, whatever the settings' effects are."""
    if not of:
        return 0.0, 1.0
    interval = stats.binomtest(count, of).proportion_ci(level, method="exact")
    return float(interval.low), float(interval.high)


def p_of_share(holds: int, n: int) -> float:
    """The exact two-sided binomial p of a share of one half."""
    return float(stats.binomtest(holds, n).pvalue)


def median_interval(values: np.ndarray, level: float) -> Ends:
    """The interval of the median that inverts the sign test: from the k-th smallest value to the k-th largest, with
    the largest k for which P(B < k) <= (1 - level) / 2 with B ~ binomial(n, 1/2). Infinite where n is too small."""
    interval = stats.quantile_test(values, q=0, p=0.5).confidence_interval(level)
    return (-math.inf, math.inf) if math.isnan(interval.low) else (float(interval.low), float(interval.high))


def holm(p: Any) -> np.ndarray:
    """Holm's step-down adjustment: the i-th smallest of k is multiplied by k - i + 1. Results are at most 1 and never
    decrease. (In statsmodels each call collects garbage for a tenth of a second.)"""
    p = np.asarray(p, float)
    order = np.argsort(p)
    rising = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(rising, 1.0)[np.argsort(order)]


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
                found.append((name, groups, _fisher(k, n, other_k, other_n)))
    adjusted = holm([p for *_, p in found]).tolist()
    return tuple(
        Moderator(name=name, groups=groups, p=p) for (name, groups, _), p in zip(found, adjusted, strict=True)
    )


def _fisher(k: int, n: int, other_k: int, other_n: int) -> float:
    return float(stats.fisher_exact([[k, n - k], [other_k, other_n - other_k]]).pvalue)


def _of_kind(label: str, labels: Labels) -> pd.Series:
    """The side of each setting by a label; nan where it has none."""
    values, (names, inside, outside) = pd.Series([row.get(label) for row in labels]), SIDES[label]
    return values.isin(names).map({True: inside, False: outside}).where(values.notna())


def _halves(label: str, labels: Labels) -> pd.Series:
    """Up to the median of the settings, and above it."""
    numbers = pd.to_numeric(pd.Series([row.get(label) for row in labels]), errors="coerce")
    middle = numbers.median()
    names = {False: f"up to {middle:g}", True: f"above {middle:g}"}
    return (numbers > middle).map(names).where(numbers.notna())
