"""The mean effect over settings with equal weights, and the word that it allows. Works on arrays, so that errors can be
counted.

It is the random-effects mean with Hartung and Knapp's interval, with the same weight for all settings. Meta-analyses
use weights of 1 / variance. With those, the noise of the settings would decide what is estimated. And with variances
from five seeds and skewed effects, they err far more often than 5% (docs/verdicts.md has the numbers), because small
variances then go with effects on one side. Student's t over independent means of unequal variances keeps its level
(Bakirov, Szekely 2005; Ibragimov, Mueller 2010).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import Region, UncertainMean, holm, p_region
from normexp.claims.judge.one_setting import INCONCLUSIVE, REFUTED, SUPPORTED
from normexp.claims.judge.setting_effect import SettingEffect
from normexp.runs.intervals import t_quantile

VARIES = "varies across settings"
FEWEST_SETTINGS = 4
FEWEST_PAIRS_TOGETHER = 60  # log(0.05) / log(0.95) = 58.4
POINTING = 0.8


@dataclass(frozen=True, eq=False)
class Pooled:
    """The joint result of several settings: numbers, or arrays over leading axes.

    Attributes:
        mean: the mean effect over the settings.
        between: estimated variance of the true effect from setting to setting, at least 0.
        settings: number of settings.
    """

    mean: UncertainMean
    between: np.ndarray | float
    settings: int

    def prediction(self, level: float) -> tuple:
        """Interval for the true effect of one more setting, if it is drawn like these (Higgins et al. 2009)."""
        if self.settings < 3:
            return -np.inf, np.inf
        t = t_quantile(level, self.settings - 2)
        half = t * np.sqrt(self.between + self.mean.variance)
        return self.mean.effect - half, self.mean.effect + half


def pool(effects: np.ndarray, covariance: np.ndarray, third: np.ndarray) -> Pooled:
    """The mean of `effects` (..., k) whose errors have a covariance (..., k, k) and third cumulants (..., k).

    Let S^2 be the variance of the effects, v the mean variance of their errors, and c >= 0 the mean covariance of two
    errors. S^2 estimates v + tau^2 - c, so tau^2 = max(S^2 - v + c, 0). The variance of the mean is
    max(S^2, v - c) / k + c with k - 1 degrees of freedom. This is Hartung and Knapp's estimate, except that settings
    gain nothing if they happen to agree better than their noise allows.
    """
    k = effects.shape[-1]
    own = np.diagonal(covariance, axis1=-2, axis2=-1).mean(-1)
    pairs = max(k * (k - 1), 1)
    shared = np.maximum((covariance.sum((-2, -1)) - k * own) / pairs, 0.0)
    seen = effects.var(-1, ddof=1) if k > 1 else np.zeros(effects.shape[:-1])
    variance = np.maximum(seen, own - shared) / k + shared
    mean = UncertainMean(effects.mean(-1), variance, k - 1.0, third.sum(-1) / k**3)
    return Pooled(mean, np.maximum(seen - own + shared, 0.0), k)


def pool_settings(effects: list[SettingEffect]) -> Pooled:
    """The mean effect over settings. It accounts for correlations between settings that share examples or runs."""
    cells = cells_of(effects)
    return pool(np.asarray(cells.effect), covariances(effects), np.asarray(cells.third))


def cells_of(effects: list[SettingEffect]) -> UncertainMean:
    """The means of settings as arrays (k,)."""
    means = [effect.known_mean for effect in effects]
    return UncertainMean(
        *np.array([(m.effect, m.variance, m.df, m.third) for m in means], float).reshape(-1, 4).T
    )


def covariances(effects: list[SettingEffect]) -> np.ndarray:
    """(k, k): variances, and covariances of settings that share test examples, a pool of examples, or runs."""
    found = np.diag(np.array([float(effect.known_mean.variance) for effect in effects]))
    for i, first in enumerate(effects):
        for j, second in enumerate(effects[:i]):
            found[i, j] = found[j, i] = covariance(first, second)
    return found


def covariance(a: SettingEffect, b: SettingEffect) -> float:
    """Covariance of two effects, from the part that each seed and example adds to them.

    If they share test examples: the covariance of the examples' means divided by E. If they share runs, or splits cut
    alike from one pool: the covariance of the seeds' means over their common seeds. If they share both: the sum of the
    two minus the covariance of the rest, as in the variance of one effect.
    """
    same_examples = a.setting.shared != "" and a.setting.shared == b.setting.shared
    seeds, places_a, places_b = np.intersect1d(a.seeds, b.seeds, return_indices=True)
    same_seeds = len(seeds) > 1 and (
        not a.runs.isdisjoint(b.runs) or (same_examples and a.influence.ndim == 1)
    )
    both_examples = same_examples and a.influence.ndim == b.influence.ndim == 2
    total = 0.0
    if both_examples:
        total += _cross(a.influence.mean(0), b.influence.mean(0)) / a.influence.shape[1]
    if same_seeds:
        x, y = (
            z[at].mean(1) if z.ndim == 2 else z[at]
            for z, at in ((a.influence, places_a), (b.influence, places_b))
        )
        share = len(seeds) / (len(a.seeds) * len(b.seeds))
        again = a.setting.test_to_train if a.setting.design == "cut again" and same_examples else 0.0
        total += _cross(x, y) * (share + again)
    if both_examples and same_seeds:
        x, y = (_rest(z[at]) for z, at in ((a.influence, places_a), (b.influence, places_b)))
        total -= (x * y).sum() / ((x.shape[0] - 1) * (x.shape[1] - 1)) * share / x.shape[1]
    return float(total)


def _cross(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.cov(x, y, ddof=1)[0, 1])


def _rest(z: np.ndarray) -> np.ndarray:
    return z - z.mean(1, keepdims=True) - z.mean(0, keepdims=True) + z.mean()


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
    """The word of one comparison. The data cannot change its rules.

    - supported, refuted: the interval of the mean over settings lies where the sentence says, or wholly outside. At
      least 80% of the settings point that way, and none decides against it, after Holm over the settings.
    - varies across settings: some settings decide for the sentence and some against it, after Holm.
    - inconclusive: everything else, and always if there are fewer than 60 pairs of runs or fewer than four settings
      that vote. An accident that strikes one run in twenty shows at least once in 60 runs, with 95%. In fewer runs it
      may stay unseen.

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
    points = np.where(_inside(effects, supporting), 1, -1)
    cell_for, cell_against = p_region(cells, supporting), p_region(cells, refuting)
    p_cells, sides = holm(np.minimum(cell_for, cell_against)), np.where(cell_for <= cell_against, 1, -1)
    decided = np.where(p_cells <= alpha, sides, 0)
    enough = (np.asarray(pairs) >= FEWEST_PAIRS_TOGETHER) & (effects.shape[-1] >= FEWEST_SETTINGS)
    agree = (points == side[..., None]).mean(-1) >= POINTING
    opposed = (decided == -side[..., None]).any(-1)
    holds = enough & (p_mean <= alpha) & agree & ~opposed
    p_varies = np.max([np.where(sides == one, p_cells, 1.0).min(-1) for one in (1, -1)], axis=0)
    varies = enough & ~holds & (p_varies <= alpha)
    word = np.select([holds & (side == 1), holds, varies], [SUPPORTED, REFUTED, VARIES], INCONCLUSIVE)
    return Decision(word, np.where(varies, p_varies, p_mean), points, decided)


def _inside(effect: np.ndarray, region: Region) -> np.ndarray:
    """Whether each effect lies in one of the intervals of `region`."""
    return np.any([(low < effect) & (effect < high) for low, high in region], axis=0)
