"""The effect within one setting, and its uncertainty by design: seeds alone, seeds crossed with test examples, or
splits cut again.

For errors and losses, the effect is the log of the ratio of their means over runs and examples. Half a wrong answer is
added to every arm's total, so that zero errors have a logarithm (Haldane, Anscombe). For a measure without examples, it
is the mean over seeds of the comparison's effect.

A bootstrap of five seeds gives four fifths of the variance and a normal quantile, so its 95% interval covers only 83%.
The functions here give the same variances without resampling. They are unbiased for any number of seeds and have the
degrees of freedom that Student's t needs. In the limit they equal the bootstraps, and tests compare the two.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import UncertainMean
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting

FEWEST_PAIRS = 5  # in a setting that votes


class Noise(NamedTuple):
    """Cumulants of the error of a mean, as arrays over the leading axes."""

    variance: np.ndarray
    df: np.ndarray
    third: np.ndarray


def over_seeds(z: np.ndarray) -> Noise:
    """Noise of the mean of `z` (..., seeds), one effect per seed: s^2 / n."""
    n = z.shape[-1]
    return Noise(_spread(z) / n, np.full(z.shape[:-1], n - 1.0), third_cumulant(z))


def cut_again(z: np.ndarray, test_to_train: float) -> Noise:
    """Noise of the mean over seeds, if each seed cuts its own training and test split from one pool.

    The splits overlap, so seeds are not independent: (1 / n + n_test / n_train) s^2 (Nadeau, Bengio 2003, the corrected
    resampled t). Many seeds do not make it vanish, and rightly so, because the pool is one sample.
    """
    alone = over_seeds(z)
    return alone._replace(variance=alone.variance + test_to_train * _spread(z))


def crossed(z: np.ndarray, resolution: np.ndarray | float = 0.0) -> Noise:
    """Noise of the mean of `z` (..., seeds, examples). Every seed had the same examples; both are samples.

    The crossed model has components for seed, example and rest. V_seed + V_example - V_rest is an unbiased estimate of
    the variance of the mean. V_seed is the variance of the seeds' means divided by n, V_example that of the examples'
    means divided by E, V_rest that of the residuals divided by n E (Searle 1971). A bootstrap that draws seeds and
    examples independently estimates the same (Owen 2007). Degrees of freedom are Satterthwaite's.

    Args:
        resolution: variance to add to the examples' part, because a test set cannot show finer differences.
    """
    n, examples = z.shape[-2:]
    seeds, means = z.mean(-1), z.mean(-2)  # (..., n), (..., E)
    rest = z - seeds[..., :, None] - means[..., None, :] + z.mean((-2, -1))[..., None, None]
    of_seeds = seeds.var(-1, ddof=1) / n
    of_examples = means.var(-1, ddof=1) / examples + resolution
    of_rest = (rest**2).sum((-2, -1)) / ((n - 1) * (examples - 1)) / (n * examples)
    variance = np.maximum(of_seeds + of_examples - of_rest, np.maximum(of_seeds, of_examples))
    spread = of_seeds**2 / (n - 1) + of_examples**2 / (examples - 1) + of_rest**2 / (n - 1) / (examples - 1)
    df = np.divide(variance**2, spread, out=np.full_like(variance, n - 1.0), where=spread > 0)
    return Noise(variance, np.maximum(df, n - 1.0), third_cumulant(seeds) + third_cumulant(means))


def _spread(z: np.ndarray) -> np.ndarray:
    """s^2 over the last axis. Exactly 0 for equal values, even if their mean is rounded."""
    return np.where(np.ptp(z, axis=-1) == 0, 0.0, z.var(-1, ddof=1))


def third_cumulant(z: np.ndarray) -> np.ndarray:
    """Third cumulant of the mean over the last axis: the unbiased third cumulant of the values, divided by n^2."""
    n = z.shape[-1]
    centered = z - z.mean(-1, keepdims=True)
    return (centered**3).sum(-1) / ((n - 1) * (n - 2) * n)


@dataclass(frozen=True, eq=False)
class SettingEffect:
    """The effect of a comparison in one setting.

    Attributes:
        mean: the effect; None if every arm trained at fewer than five seeds.
        seeds: the seeds at which every arm trained, (n,).
        influence: the part of the effect from each seed (n,), or seed and example (n, E), for covariances between
            settings.
    """

    setting: Setting
    mean: UncertainMean | None
    seeds: np.ndarray
    influence: np.ndarray
    runs: frozenset[str]

    @property
    def known_mean(self) -> UncertainMean:
        """`mean`. Raises ValueError if there is none."""
        if self.mean is None:
            raise ValueError(
                f"setting={self.setting.name}: fewer than {FEWEST_PAIRS} pairs of runs; add seeds"
            )
        return self.mean


def effect_in(
    setting: Setting, comparison: Comparison, failed: str = "left_out", better: str | None = None
) -> SettingEffect:
    """The effect over the seeds at which every compared arm trained (`failed: left_out`, a complete-case analysis), or
    over all seeds, where a failed run gets the value of guessing (`failed: guess`)."""
    own = complete_cases(setting, comparison, failed)
    seeds = next(iter(own.values())).seeds
    runs = frozenset(name for outcomes in own.values() for name in outcomes.runs)
    if len(seeds) < FEWEST_PAIRS:
        return SettingEffect(setting, None, seeds, np.zeros(len(seeds)), runs)
    if setting.design == "seeds":
        effects = effects_of_seeds(own, comparison, better)
        noise, influence = over_seeds(effects), effects - effects.mean()
    else:
        noise, influence = _influence(setting, own, comparison)
    effect = point_effect(setting, own, comparison, better)
    variance, df, third = map(float, noise)
    return SettingEffect(setting, UncertainMean(effect, variance, df, third), seeds, influence, runs)


def complete_cases(setting: Setting, comparison: Comparison, failed: str = "left_out") -> dict[Arm, Outcomes]:
    """The outcomes that a comparison reads, at the seeds at which all of them trained; at all seeds, if a failed run
    counts as a `guess`. Raises ValueError if the setting does not know the value of guessing."""
    if setting.design != "seeds" and comparison.by == "rank":
        raise ValueError(f"setting={setting.name}: ranks need a measure without examples; use by: slope")
    own = comparison.reads(setting.outcomes)
    if failed == "guess":
        if setting.guess is None:
            raise ValueError(
                f"setting={setting.name}: the value of guessing is not known; give guess, or failed: left_out"
            )
        own = {arm: outcomes.guessing(setting.guess) for arm, outcomes in own.items()}
    trained = ~np.any([outcomes.failed for outcomes in own.values()], axis=0)
    return {arm: outcomes.at(trained) for arm, outcomes in own.items()}


def effects_of_seeds(own: Mapping[Arm, Outcomes], comparison: Comparison, better: str | None) -> np.ndarray:
    """(n,): the effect of each seed, for a measure without examples, rounded so that values which differ only by
    rounding are equal. Raises ValueError for logarithms of values of 0 or below."""
    values = np.concatenate([outcomes.values for outcomes in own.values()])
    if comparison.log and (values <= 0).any():
        raise ValueError("log=true: a value of 0 or below has no logarithm; compare without log")
    effects = comparison.effects(own, better)
    scale = 1e-9 * np.abs(np.log(values) if comparison.log else values).max()
    return np.round(effects / scale) * scale if scale > 0 else effects


def point_effect(
    setting: Setting, own: Mapping[Arm, Outcomes], comparison: Comparison, better: str | None = None
) -> float:
    """The effect without its uncertainty, from the values of the runs."""
    if setting.design == "seeds":
        return float(effects_of_seeds(own, comparison, better).mean())
    means = {arm: outcomes.values.mean() + _half(setting, outcomes) for arm, outcomes in own.items()}
    if comparison.log:
        means = {arm: math.log(mean) for arm, mean in means.items()}
    weights = comparison.weights(setting.levels)
    return sum(weight * means[arm] for arm, weight in weights.items()) - comparison.scaled_target


def _half(setting: Setting, outcomes: Outcomes) -> float:
    return 0.5 / outcomes.known_examples.size if setting.counts else 0.0


def _influence(
    setting: Setting, own: Mapping[Arm, Outcomes], comparison: Comparison
) -> tuple[Noise, np.ndarray]:
    """Noise of a contrast of logs of means (delta method), or of means if the comparison takes no logs."""
    resolution, influence = 0.0, np.zeros(())
    for arm, weight in comparison.weights(setting.levels).items():
        outcomes = own[arm]
        values = outcomes.values[:, None] if outcomes.examples is None else outcomes.examples  # (n, E)
        mean = values.mean() + _half(setting, outcomes)
        influence = influence + weight * (values - values.mean()) / (mean if comparison.log else 1.0)
        if setting.counts:  # a test set cannot resolve less than one answer (Bonett, Price 2012)
            examples = values.shape[1]
            resolution += (weight / (mean * examples + 1 if comparison.log else examples)) ** 2
    noise = noise_of_mean(setting, influence, resolution)
    return noise, influence if setting.design == "test set" else influence.mean(1)


def noise_of_mean(setting: Setting, z: np.ndarray, resolution: float = 0.0) -> Noise:
    """Of the mean of `z` (seeds, examples) by a setting's design; `resolution` as of `crossed`."""
    if setting.design == "test set":
        return crossed(z, resolution)
    noise = cut_again(z.mean(1), setting.test_to_train)
    return noise._replace(variance=noise.variance + resolution / len(z))
