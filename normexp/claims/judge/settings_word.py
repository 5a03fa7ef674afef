"""The word over several settings. The data cannot change its rules. Works on arrays, so that errors can be counted.

- supported, refuted: the interval of the mean over settings lies where the sentence says, or wholly outside. At least
  80% of the settings point that way, and none decides against it, after Holm over the settings.
- varies across settings: some settings decide for the sentence and some against it, after Holm.
- inconclusive: everything else, and always if there are fewer than 60 pairs of runs or fewer than four settings that
  vote. An accident that strikes one run in twenty shows at least once in 60 runs, with 95%. In fewer runs it may stay
  unseen.
"""

from typing import NamedTuple

import numpy as np

from normexp.claims.judge.comparison import Comparison, Region
from normexp.claims.judge.holm import holm
from normexp.claims.judge.over_settings import Pooled
from normexp.claims.judge.uncertain_mean import UncertainMean

SUPPORTED, REFUTED, VARIES, INCONCLUSIVE = (
    "supported",
    "refuted",
    "varies across settings",
    "inconclusive",
)
FEWEST_SETTINGS = 4
FEWEST_PAIRS_TOGETHER = 60  # log(0.05) / log(0.95) = 58.4
POINTING = 0.8


class Decision(NamedTuple):
    """Numbers, or arrays over leading axes. `cells` and `points` have one more axis, with one value per setting."""

    word: np.ndarray
    p: np.ndarray  # smallest alpha at which the word holds; if inconclusive, at which any word would hold
    points: np.ndarray  # +1: the effect of the setting lies where the sentence says, -1: outside
    cells: np.ndarray  # +1: the setting decides for the sentence after Holm, -1: against, 0: neither


def decide_over_settings(
    comparison: Comparison,
    pooled: Pooled,
    cells: UncertainMean,
    pairs: np.ndarray | int,
    alpha: float,
    p_mean: np.ndarray | float | None = None,
) -> Decision:
    """The word of one comparison.

    Args:
        cells: the effect in each setting that votes, arrays (..., k).
        pairs: number of runs of each arm in all these settings together.
        p_mean: adjusted p of the mean, if there are several comparisons.
    """
    supporting, refuting = comparison.supporting(), comparison.refuting()
    p_for, p_against = p_region(pooled.mean, supporting), p_region(pooled.mean, refuting)
    p_mean = np.minimum(p_for, p_against) if p_mean is None else np.asarray(p_mean)
    side = np.where(p_for <= p_against, 1, -1)
    effects = np.asarray(cells.effect)
    points = np.where(inside(effects, supporting), 1, -1)
    of_cells, sides = p_of_cells(cells, comparison)
    decided = np.where(of_cells <= alpha, sides, 0)
    enough = (np.asarray(pairs) >= FEWEST_PAIRS_TOGETHER) & (effects.shape[-1] >= FEWEST_SETTINGS)
    agree = (points == side[..., None]).mean(-1) >= POINTING
    opposed = (decided == -side[..., None]).any(-1)
    holds = enough & (p_mean <= alpha) & agree & ~opposed
    p_varies = np.maximum(_smallest(of_cells, sides == 1), _smallest(of_cells, sides == -1))
    varies = enough & ~holds & (p_varies <= alpha)
    word = np.select([holds & (side == 1), holds, varies], [SUPPORTED, REFUTED, VARIES], INCONCLUSIVE)
    return Decision(word, np.where(varies, p_varies, p_mean), points, decided)


def p_of_cells(cells: UncertainMean, comparison: Comparison) -> tuple[np.ndarray, np.ndarray]:
    """For each setting the p at which it decides, after Holm over the settings, and its side (+1 or -1)."""
    p_for, p_against = p_region(cells, comparison.supporting()), p_region(cells, comparison.refuting())
    return holm(np.minimum(p_for, p_against)), np.where(p_for <= p_against, 1, -1)


def p_region(mean: UncertainMean, region: Region) -> np.ndarray:
    """p value of the hypothesis that the effect lies in one of the intervals of `region`."""
    return np.min([np.asarray(mean.p_within(low, high)) for low, high in region], axis=0)


def inside(effect: np.ndarray, region: Region) -> np.ndarray:
    """Whether each effect lies in one of the intervals of `region`."""
    return np.any([(low < effect) & (effect < high) for low, high in region], axis=0)


def _smallest(p: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.where(chosen, p, 1.0).min(-1)
