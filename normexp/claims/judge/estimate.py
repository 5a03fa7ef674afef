"""An estimated effect: its interval, the p at which it lies within bounds, and the seeds that would decide it."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import special  # stdtr and stdtrit: Student's t without the overhead of scipy.stats

from normexp.runs.intervals import t_quantile

ALPHA = 0.05
RANK_SEEDS = 8  # with fewer, a signed-rank test can hardly reach 5%: its smallest level is 2 / 2^n
MOST_SEEDS = 1000
POWER = 0.8
Region = list[tuple[float, float]]  # of effects, as intervals


@dataclass(frozen=True, eq=False)
class UncertainMean:
    """An estimated mean with the first three cumulants of its error. Every field is a number or an array.

    The interval is Student's, and wider on one side if the data are skewed. With skewness s of the mean and quantile t,
    the end on the side of the long tail moves out by s (2 t^2 + 1) / 6 standard errors. This is the first term of the
    Cornish-Fisher expansion of Student's statistic (Johnson 1978, Hall 1992). The other end never moves in, because a
    few values do not show the skewness well enough to narrow anything. A bootstrap is not used: of 5 and 8 seeds it
    covers less than its level.

    A variance of 0 means that the measure resolved nothing: the interval is infinite and p is 1. If values are `exact`,
    it is a proof: the interval has width 0.

    Attributes:
        effect: the mean.
        variance: of the mean, not of its parts.
        df: degrees of freedom of `variance`.
        third: third cumulant of the mean.
    """

    effect: np.ndarray | float
    variance: np.ndarray | float
    df: np.ndarray | float
    third: np.ndarray | float = 0.0
    exact: bool = False
    method = "paired t"

    @property
    def error(self) -> np.ndarray | float:
        return np.sqrt(self.variance)

    @property
    def skewness(self) -> np.ndarray | float:
        """Skewness of the mean; 0 if nothing varies."""
        varies = np.asarray(self.variance) > 0
        return np.where(varies, self.third / np.where(varies, self.variance, 1.0) ** 1.5, 0.0)

    def interval(self, level: float) -> tuple[Any, Any]:
        """Ends of the interval, each a number or an array."""
        t = t_quantile(level, self.df)
        term = self.skewness * (2 * t**2 + 1) / 6
        known = (np.asarray(self.variance) > 0) | self.exact
        low = np.where(known, self.effect - self.error * (t + np.maximum(-term, 0)), -np.inf)
        high = np.where(known, self.effect + self.error * (t + np.maximum(term, 0)), np.inf)
        return (low, high) if low.ndim else (float(low), float(high))

    def p_within(self, low: float, high: float) -> np.ndarray | float:
        """The smallest alpha whose (1 - alpha) interval lies within (low, high); 1 if none does."""
        varies = np.asarray(self.variance) > 0
        error = np.where(varies, self.error, 1.0)
        t = np.minimum(
            _t_at(np.asarray(self.effect - low) / error, np.maximum(-self.skewness, 0)),
            _t_at(np.asarray(high - self.effect) / error, np.maximum(self.skewness, 0)),
        )
        p = 2 * special.stdtr(self.df, -np.maximum(t, 0))
        p = np.where(t > 0, np.where(varies, p, 0.0 if self.exact else 1.0), 1.0)
        return p if p.ndim else float(p)


def _t_at(distance: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """The t with t + skewness (2 t^2 + 1) / 6 = distance."""
    rest = distance - skewness / 6
    with np.errstate(invalid="ignore"):  # if a bound is infinite
        root = np.sqrt(np.maximum(1 + 4 * skewness / 3 * rest, 0))
        return np.where(np.isposinf(distance), np.inf, 2 * rest / (1 + root))


@dataclass(frozen=True, eq=False)
class RankEstimate:
    """Hodges-Lehmann estimate with the interval that inverts Wilcoxon's signed-rank test.

    `effects` (n,) need only an order, so a diverged run may be infinitely bad.
    """

    effects: np.ndarray
    method = "signed rank"

    @property
    def averages(self) -> np.ndarray:
        """(x_i + x_j) / 2 for i <= j, sorted; opposite infinities average to 0."""
        i, j = np.triu_indices(len(self.effects))
        with np.errstate(invalid="ignore"):
            averages = (self.effects[i] + self.effects[j]) / 2
        return np.sort(np.nan_to_num(averages, nan=0.0, posinf=math.inf, neginf=-math.inf))

    @property
    def effect(self) -> float:
        averages = self.averages
        low, high = averages[[(len(averages) - 1) // 2, len(averages) // 2]]
        return float(low if low == high else (low + high) / 2)

    def interval(self, level: float) -> tuple[float, float]:
        averages = self.averages
        usable = np.flatnonzero(rank_levels(len(self.effects)) <= 1 - level)
        if len(usable) == 0:
            return -math.inf, math.inf
        return float(averages[usable[-1]]), float(averages[len(averages) - 1 - usable[-1]])

    def p_within(self, low: float, high: float) -> float:
        averages = self.averages
        for k, alpha in enumerate(rank_levels(len(self.effects))):
            above = low == -math.inf or averages[k] > low
            if above and (high == math.inf or averages[len(averages) - 1 - k] < high):
                return float(alpha)
        return 1.0


@cache
def rank_levels(n: int) -> np.ndarray:
    """alpha_k = 2 P(T <= k), where T is the signed-rank statistic of n effects; only those with alpha_k <= 1. The
    interval from the k-th lowest to the k-th highest Walsh average (counted from 0) has level 1 - alpha_k."""
    counts = np.array([1.0])
    for rank in range(1, n + 1):  # each rank is in the sum or not
        counts = np.convolve(counts, np.eye(1, rank + 1, 0)[0] + np.eye(1, rank + 1, rank)[0])
    levels = 2 * np.cumsum(counts) / 2.0**n
    return levels[levels <= 1]


def mean_of(effects: np.ndarray, *, exact: bool = True) -> UncertainMean:
    """Mean of paired effects (n,), one a seed, with Student's t interval, exact for normal effects at every n."""
    # Exactly 0 for equal values, whose mean may be rounded.
    variance = float(effects.var(ddof=1)) / len(effects) if np.ptp(effects) else 0.0
    return UncertainMean(float(effects.mean()), variance, len(effects) - 1, exact=exact)


def p_region(mean: UncertainMean | RankEstimate, region: Region) -> np.ndarray:
    """p value of the hypothesis that the effect lies outside all intervals of `region`."""
    return np.min([np.asarray(mean.p_within(low, high)) for low, high in region], axis=0)


def holm(p: np.ndarray | list[float]) -> np.ndarray:
    """Holm's step-down adjustment along the last axis: the i-th smallest of k is multiplied by k - i + 1. Results are
    at most 1 and never decrease. (In statsmodels each call collects garbage for a tenth of a second.)"""
    p = np.asarray(p, float)
    k = p.shape[-1]
    order = np.argsort(p, axis=-1)
    steps = np.take_along_axis(p, order, -1) * (k - np.arange(k))
    adjusted = np.minimum(np.maximum.accumulate(steps, axis=-1), 1.0)
    return np.take_along_axis(adjusted, np.argsort(order, axis=-1), -1)


def seeds_to_decide(
    estimate: UncertainMean | RankEstimate, n: int, region: Region, alpha: float
) -> int | None:
    """The fewest seeds beyond these n for which the (1 - alpha) interval lies within one part of `region` with
    probability 80%, if the true mean and deviation are as estimated. None if more than 1,000 are needed. For ranks, the
    deviation is the one of normal effects with an interval as wide."""
    if isinstance(estimate, UncertainMean):
        deviation = float(estimate.error) * math.sqrt(n)
    else:
        low, high = estimate.interval(1 - alpha)
        deviation = (
            max(estimate.effect - low, high - estimate.effect) * math.sqrt(n) / t_quantile(1 - alpha, n - 1)
        )
    distance = max(min(estimate.effect - low, high - estimate.effect) for low, high in region)
    enough = np.flatnonzero(_reach(alpha)[n:] * deviation < distance)
    return int(enough[0]) + 1 if len(enough) else None


@cache
def _reach(alpha: float) -> np.ndarray:
    """For n = 1 ... 1,000 seeds: the distance from a boundary, in deviations, at which an effect is decided."""
    n = np.arange(1, MOST_SEEDS + 1)
    quantile = special.stdtrit(np.maximum(n - 1, 1), 1 - alpha / 2)
    return (quantile + special.ndtri(POWER)) / np.sqrt(n)
