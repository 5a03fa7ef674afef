"""The settings that vote on a comparison, and the result of each."""

from dataclasses import dataclass

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.decide import ALPHA
from normexp.claims.judge.failures import Failures, count_failures, difference_of_failures, failed_pairs
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.saturation import saturation
from normexp.claims.judge.setting_effect import FEWEST_PAIRS, SettingEffect, contrast, effect_in


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a claim fixes besides its comparisons.

    Attributes:
        failed: how failed runs count: `left_out` (the mean is over seeds at which both arms trained) or `guess` (a run
            that learned nothing).
        measure: `value`, or `failed` if the sentence is about how often runs fail.
        better: `lower` or `higher`.
        alpha: the alpha that this judgment may spend.
    """

    failed: str = "left_out"
    measure: str = "value"
    better: str | None = None
    alpha: float = ALPHA


@dataclass(frozen=True, eq=False)
class Ballot:
    """The effects of one comparison in every setting."""

    comparison: Comparison
    effects: list[SettingEffect]
    flags: list[str]  # why a setting does not vote; empty if it does
    failures: Failures

    @property
    def voting(self) -> list[SettingEffect]:
        return [effect for effect, flag in zip(self.effects, self.flags, strict=True) if not flag]


def ballot(settings: list[Setting], comparison: Comparison, rules: Rules) -> Ballot:
    """The effect and the vote of each setting, and the runs that failed."""
    effects = [effect_of(setting, comparison, rules) for setting in settings]
    flags = [_flag(effect, comparison, rules) for effect in effects]
    return Ballot(comparison, effects, flags, count_failures(settings, comparison))


def effect_of(setting: Setting, comparison: Comparison, rules: Rules) -> SettingEffect:
    """The effect in one setting: of values, or of failures if the rules count these."""
    if rules.measure == "value":
        return effect_in(setting, comparison, rules.failed, rules.better)
    pairs = failed_pairs(setting, comparison)
    influence = pairs[:, 0].astype(float) - pairs[:, 1]
    own = [setting.outcomes[arm] for arm in contrast(comparison, setting.levels)]
    runs = frozenset(name for outcomes in own for name in outcomes.runs)
    mean = difference_of_failures(pairs) if len(pairs) >= FEWEST_PAIRS else None
    return SettingEffect(setting, mean, own[0].seeds, influence - influence.mean(), runs)


def _flag(effect: SettingEffect, comparison: Comparison, rules: Rules) -> str:
    if effect.mean is None:
        return f"fewer than {FEWEST_PAIRS} pairs of runs"
    if rules.measure == "failed":
        return ""
    compared = [effect.setting.outcomes[arm] for arm in contrast(comparison, effect.setting.levels)]
    return saturation(effect.setting, compared)
