"""Runs and settings that show no effect: runs that failed, whether one arm fails more often and what effect that can
hide; settings that are too easy or not learned."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import UncertainMean
from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.claims.judge.setting_effect import point_effect

ABOVE_CHANCE = 0.001  # of a thousand runs that guess, one is taken for a run that learned
UNEQUAL = 0.05
FEWEST_WRONG = 5.0  # wrong answers per run; with fewer, one image is more than a fifth of the errors
FLOOR = 0.9  # of the value of guessing


def never_above_chance(right: np.ndarray, examples: int, chance: float) -> np.ndarray:
    """Whether each run only guessed: at its best validation it had `right` of `examples` answers right, no more than
    guessing gives, by a one-sided binomial test at 0.1%. `chance` is the share of the largest class."""
    return stats.binom.sf(np.asarray(right) - 1, examples, chance) > ABOVE_CHANCE


@dataclass(frozen=True)
class Failures:
    """How often two arms fail at the same seeds of the same settings.

    The test is McNemar's, exact for any number of runs. It counts only pairs in which exactly one arm failed. If both
    arms fail equally often, each such pair belongs to either arm with probability one half.
    """

    arm: int  # number of its failed runs
    baseline: int | None  # the same; None if there is no baseline
    only_arm: int  # pairs in which only the arm failed
    only_baseline: int
    pairs: int

    @property
    def p(self) -> float:
        alone = self.only_arm + self.only_baseline
        if self.baseline is None or not alone:
            return 1.0
        return float(stats.binomtest(self.only_arm, alone).pvalue)

    @property
    def unequal(self) -> bool:
        return self.p <= UNEQUAL

    def shown(self) -> dict[str, Any]:
        return {
            "arm": self.arm,
            "baseline": self.baseline,
            "pairs": self.pairs,
            "p": self.p,
            "unequal": self.unequal,
        }


def count_failures(settings: list[Setting], comparison: Comparison) -> Failures:
    """Count failures over all settings. With several levels of a factor, an arm failed if it failed at one level."""
    pairs = np.concatenate([failed_pairs(setting, comparison) for setting in settings])
    arm, baseline = pairs.T
    return Failures(
        arm=int(arm.sum()),
        baseline=None if comparison.baseline is None else int(baseline.sum()),
        only_arm=int((arm & ~baseline).sum()),
        only_baseline=int((baseline & ~arm).sum()),
        pairs=len(pairs),
    )


def failed_pairs(setting: Setting, comparison: Comparison) -> np.ndarray:
    """(n, 2): whether the arm failed, and whether the baseline failed, at each seed. Without a baseline: False."""
    found: dict[str, list[np.ndarray]] = {}
    for arm, level in comparison.weights(setting.levels):
        found.setdefault(arm, []).append(setting.outcomes[arm, level].failed)
    arm = np.any(found[comparison.named_arm], axis=0)
    baseline = np.any(found[comparison.baseline], axis=0) if comparison.baseline else np.zeros_like(arm)
    return np.stack([arm, baseline], 1)


def difference_of_failures(pairs: np.ndarray) -> UncertainMean:
    """The share of failed runs of the arm minus that of the baseline, from `pairs` (n, 2). Two pairs are added, in each
    of which one arm alone failed, so that no share is 0 or 1 for certain (Bonett, Price 2012)."""
    arm, baseline = pairs.T
    n = len(pairs) + 2
    first, second = (arm & ~baseline).sum() + 1, (baseline & ~arm).sum() + 1
    effect = (first - second) / n
    return UncertainMean(float(effect), float(((first + second) / n - effect**2) / n), np.inf)


def worst_case(setting: Setting, comparison: Comparison, better: str | None) -> tuple[float, float]:
    """The lowest and the highest effect over all seeds, if each failed run may take any value between the best run of
    the setting and guessing. Infinite if a run failed and the value of guessing is not known."""
    weights = comparison.weights(setting.levels)
    own = {arm: setting.outcomes[arm] for arm in weights}
    if not any(outcomes.failed.any() for outcomes in own.values()):
        effect = point_effect(setting, own, comparison, better)
        return effect, effect
    trained = np.concatenate([outcomes.values[~outcomes.failed] for outcomes in own.values()])
    if setting.guess is None or not len(trained):
        return -np.inf, np.inf
    low, high = sorted((float(trained.max() if better == "higher" else trained.min()), setting.guess))

    def effect_if(raising: float, lowering: float) -> float:
        """The effect if failed runs have the value `raising` in arms that raise it, and `lowering` in the others."""
        ends = {arm: raising if weight > 0 else lowering for arm, weight in weights.items()}
        filled = {arm: np.where(o.failed, ends[arm], o.values) for arm, o in own.items()}
        outcomes = {arm: dataclasses.replace(o, values=filled[arm]) for arm, o in own.items()}
        return point_effect(setting, outcomes, comparison, better)

    return effect_if(low, high), effect_if(high, low)


def saturation(setting: Setting, compared: Iterable[Outcomes]) -> str:
    """`ceiling` (too easy to show an effect), `floor` (not learned) or nothing. Such a setting is shown and does not
    vote.

    Ceiling: wrong answers are counted, and there are fewer than 5 per run on average over arms. Floor: on average over
    arms, the error, loss or time is at least nine tenths of that of a run that learned nothing. Failed runs do not
    count, because failure is a separate outcome. The rules use only the mean over all compared arms, which stays the
    same if arms change places, so no rule can remove the settings that favor one side.
    """
    trained = [outcomes.at(~outcomes.failed) for outcomes in compared]
    means = [float(outcomes.values.mean()) for outcomes in trained if len(outcomes.seeds)]
    if not means:
        return "floor"
    if setting.counts:
        examples = next(outcomes.known_examples.shape[1] for outcomes in trained if len(outcomes.seeds))
        if np.mean(means) * examples < FEWEST_WRONG:
            return "ceiling"
    guess = math.inf if setting.guess is None else setting.guess
    return "floor" if np.mean(means) >= FLOOR * guess else ""
