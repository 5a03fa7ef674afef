"""The effect within one setting: a contrast of arms, on a scale that means the same in every setting.

For errors and losses, it is the log of the ratio of their means over runs and examples. Half a wrong answer is added to
every arm's total, so that zero errors have a logarithm (Haldane, Anscombe). For a measure without examples, it is the
mean over seeds of the comparison's effect, with logarithms if the comparison says so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from normexp.claims.judge.comparison import TRENDS, Comparison
from normexp.claims.judge.noise import Noise, crossed, cut_again, over_seeds, without_rounding
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting
from normexp.claims.judge.uncertain_mean import UncertainMean

FEWEST_PAIRS = 5  # in a setting that votes


@dataclass(frozen=True, eq=False)
class SettingEffect:
    """The effect of a comparison in one setting.

    Attributes:
        mean: the effect; None if every arm trained at fewer than two seeds.
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
    """The effect over the seeds at which every compared arm trained (`failed: left_out`), or over all seeds, where a
    failed run gets the value of guessing (`failed: guess`)."""
    if setting.design != "seeds" and comparison.by == "rank":
        raise ValueError(f"setting={setting.name}: ranks need a measure without examples; use by: slope")
    weights = contrast(comparison, setting.levels)
    own = {arm: setting.outcomes[arm] for arm in weights}
    if failed == "guess":
        own = {arm: outcomes.guessing(guess_of(setting)) for arm, outcomes in own.items()}
    trained = ~np.any([outcomes.failed for outcomes in own.values()], axis=0)
    own = {arm: outcomes.at(trained) for arm, outcomes in own.items()}
    seeds = next(iter(own.values())).seeds
    runs = frozenset(name for outcomes in own.values() for name in outcomes.runs)
    if len(seeds) < FEWEST_PAIRS:
        return SettingEffect(setting, None, seeds, np.zeros(len(seeds)), runs)
    if setting.design == "seeds":
        effects = effects_of_seeds(own, weights, comparison, better)
        noise, influence = over_seeds(effects), effects - effects.mean()
    else:
        noise, influence = _influence(setting, own, weights, comparison)
    effect = point_effect(setting, own, weights, comparison, better)
    return SettingEffect(setting, UncertainMean(effect, *map(float, noise)), seeds, influence, runs)


def guess_of(setting: Setting) -> float:
    """The value of guessing in a setting. Raises ValueError if the setting does not say."""
    if setting.guess is None:
        raise ValueError(
            f"setting={setting.name}: the value of guessing is not known; give guess, or failed: left_out"
        )
    return setting.guess


def contrast(comparison: Comparison, levels: list) -> dict[Arm, float]:
    """The weight of each arm and level. The effect is the weighted sum of their values, minus the target."""
    if comparison.over is not None:
        raise ValueError(
            f"over={comparison.over}: is not judged over settings; compare with a baseline or a target"
        )
    if comparison.at is not None:
        levels = [comparison.at]
    if comparison.kind in TRENDS:
        x = np.array(levels, float)
        x = np.log2(x) if comparison.log2_factor else x
        each = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    else:
        each = np.full(len(levels), 1 / len(levels))
    arm = comparison.named_arm
    weights: dict[Arm, float] = {
        (arm, level): float(weight) for level, weight in zip(levels, each, strict=True)
    }
    if comparison.baseline is not None:
        for level, weight in zip(levels, each, strict=True):
            weights[comparison.baseline, level] = weights.get((comparison.baseline, level), 0.0) - float(
                weight
            )
    return weights


def effects_of_seeds(
    own: Mapping[Arm, Outcomes], weights: Mapping[Arm, float], comparison: Comparison, better: str | None
) -> np.ndarray:
    """(n,): the effect of each seed, for a measure without examples. It is the comparison's effect in one setting."""
    if comparison.by == "rank":
        return comparison.effects(_table(own), better)[0]
    values = {arm: outcomes.values for arm, outcomes in own.items()}
    target = comparison.target or 0.0
    if comparison.log:
        if any((value <= 0).any() for value in values.values()):
            raise ValueError("log=true: a value of 0 or below has no logarithm; compare without log")
        values, target = (
            {arm: np.log(value) for arm, value in values.items()},
            log_target(comparison),
        )
    effects = np.asarray(sum(weight * values[arm] for arm, weight in weights.items())) - target
    return without_rounding(effects, max(np.abs(value).max() for value in values.values()))


def point_effect(
    setting: Setting,
    own: Mapping[Arm, Outcomes],
    weights: Mapping[Arm, float],
    comparison: Comparison,
    better: str | None = None,
) -> float:
    """The effect without its uncertainty, from the values of the runs."""
    if setting.design == "seeds":
        return float(effects_of_seeds(own, weights, comparison, better).mean())
    means = {arm: outcomes.values.mean() + _half(setting, outcomes) for arm, outcomes in own.items()}
    target = comparison.target or 0.0
    if comparison.log:
        means, target = (
            {arm: math.log(mean) for arm, mean in means.items()},
            log_target(comparison),
        )
    return sum(weight * means[arm] for arm, weight in weights.items()) - target


def log_target(comparison: Comparison) -> float:
    """Of values the logarithm of the target; a target of a slope of logarithms is no value, and stays."""
    target = comparison.target or 0.0
    return math.log(target) if target and comparison.kind not in TRENDS else target


def _half(setting: Setting, outcomes: Outcomes) -> float:
    return 0.5 / outcomes.known_examples.size if setting.counts else 0.0


def _influence(
    setting: Setting, own: Mapping[Arm, Outcomes], weights: Mapping[Arm, float], comparison: Comparison
) -> tuple[Noise, np.ndarray]:
    """Noise of a contrast of logs of means (delta method), or of means if the comparison takes no logs."""
    resolution, influence = 0.0, np.zeros(())
    for arm, weight in weights.items():
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


def _table(own: Mapping[Arm, Outcomes]) -> pd.DataFrame:
    return pd.concat(
        pd.DataFrame({"arm": arm, "factor": level, "seed": o.seeds, "value": o.values, "censored": False})
        for (arm, level), o in own.items()
    )
