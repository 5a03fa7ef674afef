"""How many more seeds would likely decide."""

from functools import cache

import numpy as np
from scipy import special

from normexp.claims.comparison import Region
from normexp.claims.estimate import MeanEstimate

MOST_SEEDS = 1000
POWER = 0.8


def seeds_to_decide(estimate: MeanEstimate, regions: Region, alpha: float) -> int | None:
    """The fewest seeds beyond the present ones with which the (1 - alpha) interval would lie within one of the
    regions with a probability of 80%, if mean and deviation are what they seem; None beyond 1,000."""
    distance = max(min(estimate.effect - low, high - estimate.effect) for low, high in regions)
    enough = np.flatnonzero(reach(alpha)[estimate.n :] * estimate.deviation < distance)
    return int(enough[0]) + 1 if len(enough) else None


@cache
def reach(alpha: float) -> np.ndarray:
    """For n = 1 ... 1,000 seeds: how far from a boundary, in deviations, an effect must lie to be decided."""
    n = np.arange(1, MOST_SEEDS + 1)
    quantile = special.stdtrit(np.maximum(n - 1, 1), 1 - alpha / 2)
    return (quantile + special.ndtri(POWER)) / np.sqrt(n)
