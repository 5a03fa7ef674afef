"""Whether a word depends on X. Only a registered contrast that varies X alone and holds on fresh seeds can say so."""

from typing import Any, NamedTuple

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.holm import holm
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.over_settings import covariances
from normexp.claims.judge.setting_effect import SettingEffect
from normexp.claims.judge.settings_word import (
    FEWEST_PAIRS_TOGETHER,
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    p_region,
)
from normexp.claims.judge.uncertain_mean import UncertainMean
from normexp.claims.judge.voting import Rules, effect_of


class ContrastJudgement(NamedTuple):
    """The result of a contrast: groups of settings that differ only in `varies`, each with its word.

    The contrast is confirmed if one group supports the sentence and another refutes it.
    """

    confirmed: bool
    varies: str
    groups: list[dict[str, Any]]
    p: float  # smallest alpha at which the groups decide both ways

    @property
    def word(self) -> str:
        return f"depends on {self.varies}"

    @property
    def scope(self) -> str:
        words = (SUPPORTED, REFUTED)
        found = [f"{word} where {' or '.join(self._where(word))}" for word in words if self._where(word)]
        return ", ".join(found)

    def _where(self, word: str) -> list[str]:
        return [group["name"] for group in self.groups if group["verdict"] == word]


def judge_contrast(
    varies: str, groups: dict[str, list[Setting]], comparison: Comparison, rules: Rules, seen: set[int]
) -> ContrastJudgement:
    """Judge each group of settings that have the same value of X. The groups differ in nothing else.

    The word depends on X if at least one group supports the sentence and one refutes it, after Holm over the groups,
    each with 60 pairs of runs. The mean of a group is about its own settings only, so the spread over settings does not
    enter. `seen` holds the seeds of the verdict that suggested the contrast. Raises ValueError if one of them is used.
    """
    found = {
        name: [effect_of(setting, comparison, rules) for setting in settings]
        for name, settings in groups.items()
    }
    used = {int(seed) for effects in found.values() for effect in effects for seed in effect.seeds}
    if used & seen:
        raise ValueError(
            f"contrast={varies}: seed {min(used & seen)} was seen by the verdict before; a contrast takes fresh seeds, "
            "set its first_seed beyond them"
        )
    means = {name: mean_of_group(effects) for name, effects in found.items()}
    sides = {name: _sides(mean, comparison) for name, mean in means.items()}
    adjusted = dict(zip(means, holm([min(p) for p in sides.values()]).tolist(), strict=True))
    rows = []
    for name, effects in found.items():
        pairs = sum(len(effect.seeds) for effect in effects)
        decided = adjusted[name] <= rules.alpha and pairs >= FEWEST_PAIRS_TOGETHER
        word = INCONCLUSIVE if not decided else SUPPORTED if sides[name][0] <= sides[name][1] else REFUTED
        mean = means[name]
        rows.append(
            {
                "name": name,
                "verdict": word,
                "effect": None if mean is None else float(mean.effect),
                "interval": None if mean is None else mean.interval(1 - rules.alpha),
                "p_adjusted": adjusted[name],
                "pairs": pairs,
                "settings": [effect.setting.name for effect in effects],
            }
        )
    confirmed = {SUPPORTED, REFUTED} <= {row["verdict"] for row in rows}
    return ContrastJudgement(confirmed, varies, rows, _p_both(sides, adjusted))


def mean_of_group(effects: list[SettingEffect]) -> UncertainMean | None:
    """The mean over exactly these settings, with Satterthwaite's degrees of freedom; None if a setting has no mean."""
    means = [effect.mean for effect in effects if effect.mean is not None]
    if len(means) < len(effects):
        return None
    k = len(effects)
    covariance = covariances(effects) / k**2
    own = np.diagonal(covariance)
    degrees = np.array([mean.df for mean in means])
    df = own.sum() ** 2 / (own**2 / degrees).sum() if own.sum() > 0 else degrees.min()
    variance = max(covariance.sum(), own.sum())  # shared examples and runs may add variance, never remove it
    effect = float(np.mean([float(mean.effect) for mean in means]))
    return UncertainMean(effect, float(variance), float(df), sum(float(mean.third) for mean in means) / k**3)


def _sides(mean: UncertainMean | None, comparison: Comparison) -> tuple[float, float]:
    if mean is None:
        return 1.0, 1.0
    return float(p_region(mean, comparison.supporting())), float(p_region(mean, comparison.refuting()))


def _p_both(sides: dict[str, tuple[float, float]], adjusted: dict[str, float]) -> float:
    of = [
        [adjusted[name] for name, p in sides.items() if (p[0] <= p[1]) is supports]
        for supports in (True, False)
    ]
    return max(min(side, default=1.0) for side in of)
