"""The number of additional seeds that would likely decide."""

import math
from functools import cache

import numpy as np
from scipy import special

from normexp.claims.judge.comparison import Region
from normexp.claims.judge.estimate import MeanEstimate, RankEstimate

MOST_SEEDS = 1000
POWER = 0.8


def seeds_to_decide(estimate: MeanEstimate, regions: Region, alpha: float) -> int | None:
    """The fewest additional seeds for which the (1 - alpha) interval lies within one of the regions with probability
    80%, if the true mean and deviation are as estimated. None if more than 1,000 are needed."""
    distance = max(min(estimate.effect - low, high - estimate.effect) for low, high in regions)
    enough = np.flatnonzero(reach(alpha)[estimate.n :] * estimate.deviation < distance)
    return int(enough[0]) + 1 if len(enough) else None


def seeds_to_decide_by_rank(estimate: RankEstimate, regions: Region, alpha: float) -> int | None:
    """The same for ranks, if each side of the interval shrinks as 1 / sqrt(n). None beyond 1,000, or if the effect or
    the relevant side is infinite."""
    quantile = special.ndtri(1 - alpha / 2)
    shrinks = min(_shrinkage(estimate, *region, alpha) for region in regions)
    needed = estimate.n * (shrinks * (quantile + special.ndtri(POWER)) / quantile) ** 2
    return max(math.ceil(needed) - estimate.n, 1) if needed <= MOST_SEEDS else None


def _shrinkage(estimate: RankEstimate, low: float, high: float, alpha: float) -> float:
    """The largest ratio of a side of the interval to the room that (low, high) leaves on that side."""
    effect, (lower, upper) = estimate.effect, estimate.interval(1 - alpha)
    sides = [(effect - lower, effect - low)] * (low > -math.inf) + [(upper - effect, high - effect)] * (
        high < math.inf
    )
    return max(side / room if room > 0 and math.isfinite(effect) else math.inf for side, room in sides)


@cache
def reach(alpha: float) -> np.ndarray:
    """For n = 1 ... 1,000 seeds: the distance from a boundary, in deviations, at which an effect is decided."""
    n = np.arange(1, MOST_SEEDS + 1)
    quantile = special.stdtrit(np.maximum(n - 1, 1), 1 - alpha / 2)
    return (quantile + special.ndtri(POWER)) / np.sqrt(n)
