"""Intervals and tests: of the mean over seeds in one setting (Student's t), of a share of settings (Clopper and
Pearson), and of a median over settings (sign test)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr  # scipy.stats takes a second to import

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.kinds import Region
from normexp.runs.table import FEWEST_FOR_INTERVAL, t_quantile

ALPHA = 0.05
Ends = tuple[float, float]


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

    def interval(self, confidence: float) -> Ends:
        """The ends of the interval."""
        if not self.error or self.df < FEWEST_FOR_INTERVAL - 1:
            return (self.effect, self.effect) if self.exact else (-math.inf, math.inf)
        half = self.error * float(t_quantile(confidence, self.df))
        return self.effect - half, self.effect + half

    def p_within(self, region: Region) -> float:
        """The smallest alpha whose (1 - alpha) interval lies within one part of the region; 1 if none does."""
        distance = max(min(self.effect - low, high - self.effect) for low, high in region)
        few = not self.exact and self.df < FEWEST_FOR_INTERVAL - 1
        if not distance > 0 or not (self.error or self.exact) or few:
            return 1.0
        return float(2 * stdtr(self.df, -distance / self.error)) if self.error else 0.0

    def p_of(self, comparison: Comparison, margin: float) -> float:
        """The smallest alpha at which a comparison is supported or refuted."""
        rule = comparison.rule
        return min(self.p_within(rule.region(margin)), self.p_within(rule.complement(margin)))


def share_interval(count: int, of: int, confidence: float) -> Ends:
    """Clopper and Pearson's interval of a share: it misses in at most 1 - confidence, whatever the effects are."""
    if not of:
        return 0.0, 1.0
    from scipy import stats

    interval = stats.binomtest(count, of).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


def p_of_share(holds: int, n: int) -> float:
    """The exact two-sided binomial p of a share of one half."""
    from scipy import stats

    return float(stats.binomtest(holds, n).pvalue)


def median_interval(values: np.ndarray, confidence: float) -> Ends:
    """The interval of the median that inverts the sign test: from the k-th smallest value to the k-th largest, with
    the largest k for which P(B < k) <= (1 - confidence) / 2 with B ~ binomial(n, 1/2). Infinite where n is small."""
    from scipy import stats

    interval = stats.quantile_test(values, q=0, p=0.5).confidence_interval(confidence)
    return (-math.inf, math.inf) if math.isnan(interval.low) else (float(interval.low), float(interval.high))


def holm(p: Any) -> np.ndarray:
    """Holm's step-down adjustment: the i-th smallest of k is multiplied by k - i + 1. Results are at most 1 and never
    decrease. (In statsmodels each call collects garbage for a tenth of a second.)"""
    p = np.asarray(p, float)
    order = np.argsort(p)
    rising = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(rising, 1.0)[np.argsort(order)]
