"""The mean effect over settings with equal weights, its interval, and the interval for one more setting.

It is the random-effects mean with Hartung and Knapp's interval, with the same weight for all settings. Meta-analyses
use weights of 1 / variance. With those, the noise of the settings would decide what is estimated. And with variances
from five seeds and skewed effects, they err far more often than 5% (docs/verdicts.md has the numbers), because small
variances then go with effects on one side. Student's t over independent means of unequal variances keeps its level
(Bakirov, Szekely 2005; Ibragimov, Mueller 2010).
"""

from dataclasses import dataclass

import numpy as np

from normexp.claims.judge.setting_effect import SettingEffect
from normexp.claims.judge.uncertain_mean import UncertainMean
from normexp.runs.intervals import t_quantile


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
    means = [effect.known_mean for effect in effects]
    return pool(
        np.array([mean.effect for mean in means]),
        covariances(effects),
        np.array([mean.third for mean in means]),
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
