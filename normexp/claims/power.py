"""How many more seeds would likely decide."""

import numpy as np
from scipy import stats

from normexp.claims.comparison import Region
from normexp.claims.estimate import MeanEstimate

MOST_SEEDS = 1000
POWER = 0.8


def seeds_to_decide(estimate: MeanEstimate, regions: Region, alpha: float) -> int | None:
    """The fewest seeds beyond the present ones with which the (1 - alpha) interval would lie within one of the
    regions with a probability of 80%, if mean and deviation are what they seem; None beyond 1,000."""
    distance = max(min(estimate.effect - low, high - estimate.effect) for low, high in regions)
    n = np.arange(estimate.n + 1, MOST_SEEDS + 1)
    reach = (stats.t.ppf(1 - alpha / 2, n - 1) + stats.norm.ppf(POWER)) * estimate.deviation / np.sqrt(n)
    enough = n[reach < distance]
    return int(enough[0]) - estimate.n if len(enough) else None
