"""An effect estimated from one number per seed: its interval, and the p value that it lies within bounds."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special  # stdtr and stdtrit: Student's t without the overhead of scipy.stats

from normexp.runs.intervals import half_widths

RANK_SEEDS = 8  # with fewer, a signed-rank test can hardly reach 5%: its smallest level is 2 / 2^n


@dataclass(frozen=True)
class MeanEstimate:
    """Mean of paired effects with Student's t interval, exact for normal effects at every n.

    A percentile or BCa bootstrap is not used: with 5 and 8 seeds it covers less than its level
    (test_one_setting_errors.py has numbers). Equal effects have an interval of width 0. This is a proof if the values
    are `exact`. Otherwise they are measured too coarsely, and there is no p.
    """

    effects: np.ndarray
    exact: bool = True
    method = "paired t"

    @property
    def n(self) -> int:
        return len(self.effects)

    @property
    def effect(self) -> float:
        return float(self.effects.mean())

    @property
    def deviation(self) -> float:
        # Exactly 0 for equal values, whose mean may be rounded.
        return float(self.effects.std(ddof=1)) if np.ptp(self.effects) else 0.0

    def interval(self, level: float) -> tuple[float, float]:
        half = float(half_widths(self.deviation, self.n, level))
        return self.effect - half, self.effect + half

    def p_within(self, low: float, high: float) -> float:
        """The smallest alpha whose (1 - alpha) interval lies within (low, high); 1 if none does."""
        distance = min(self.effect - low, high - self.effect)
        error = self.deviation / math.sqrt(self.n)
        if distance <= 0:
            return 1.0
        if error == 0:
            return 0.0 if self.exact else 1.0
        return float(2 * special.stdtr(self.n - 1, -distance / error))


@dataclass(frozen=True)
class RankEstimate:
    """Hodges-Lehmann estimate with the interval that inverts Wilcoxon's signed-rank test.

    Effects need only an order, so a diverged run may be infinitely bad. If only bounds of an effect are known (a
    censored time), its `lows` is below its `highs`. The lower end of the interval comes from `lows`, the upper end from
    `highs`, so the interval holds for every value within the bounds.
    """

    lows: np.ndarray
    highs: np.ndarray
    method = "signed rank"

    @property
    def n(self) -> int:
        return len(self.lows)

    @property
    def effect(self) -> float:
        return float((_middle(self.lows) + _middle(self.highs)) / 2)

    @property
    def deviation(self) -> float:
        return math.nan

    def interval(self, level: float) -> tuple[float, float]:
        lows, highs = _walsh_averages(self.lows), _walsh_averages(self.highs)
        levels = rank_levels(self.n)
        usable = np.flatnonzero(levels <= 1 - level)
        if len(usable) == 0:
            return -math.inf, math.inf
        return float(lows[usable[-1]]), float(highs[len(highs) - 1 - usable[-1]])

    def p_within(self, low: float, high: float) -> float:
        lows, highs = _walsh_averages(self.lows), _walsh_averages(self.highs)
        for k, alpha in enumerate(rank_levels(self.n)):
            above = low == -math.inf or lows[k] > low
            if above and (high == math.inf or highs[len(highs) - 1 - k] < high):
                return float(alpha)
        return 1.0


@dataclass(frozen=True)
class TiedEstimate(RankEstimate):
    """No run on either side gave a number. They tie but are not equal: nothing is known of their difference."""

    method = "none: every run diverged"

    @property
    def effect(self) -> float:
        return 0.0

    def interval(self, level: float) -> tuple[float, float]:
        return -math.inf, math.inf

    def p_within(self, low: float, high: float) -> float:
        return 1.0


Estimate = MeanEstimate | RankEstimate  # a TiedEstimate is a RankEstimate


def _walsh_averages(x: np.ndarray) -> np.ndarray:
    """(x_i + x_j) / 2 for i <= j, sorted; opposite infinities average to 0."""
    i, j = np.triu_indices(len(x))
    with np.errstate(invalid="ignore"):
        averages = (x[i] + x[j]) / 2
    return np.sort(np.nan_to_num(averages, nan=0.0, posinf=math.inf, neginf=-math.inf))


def _middle(x: np.ndarray) -> float:
    averages = _walsh_averages(x)
    middle = averages[[(len(averages) - 1) // 2, len(averages) // 2]]
    return float(middle[0] if middle[0] == middle[1] else middle.mean())


@cache
def rank_levels(n: int) -> np.ndarray:
    """alpha_k = 2 P(T <= k), where T is the signed-rank statistic of n effects; only those with alpha_k <= 1. The
    interval from the k-th lowest to the k-th highest Walsh average (counted from 0) has level 1 - alpha_k."""
    counts = np.array([1.0])
    for rank in range(1, n + 1):  # each rank is in the sum or not
        counts = np.convolve(counts, np.eye(1, rank + 1, 0)[0] + np.eye(1, rank + 1, rank)[0])
    levels = 2 * np.cumsum(counts) / 2.0**n
    return levels[levels <= 1]
