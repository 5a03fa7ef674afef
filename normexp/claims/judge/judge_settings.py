"""From the runs of several settings to a word with its scope, and all the numbers behind it."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.failures import count_failures, worst_case
from normexp.claims.judge.holm import holm
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.over_settings import Pooled, pool_settings
from normexp.claims.judge.scope import scope, why_inconclusive
from normexp.claims.judge.settings_word import (
    FEWEST_PAIRS_TOGETHER,
    FEWEST_SETTINGS,
    INCONCLUSIVE,
    REFUTED,
    SUPPORTED,
    VARIES,
    Decision,
    decide_over_settings,
    p_region,
)
from normexp.claims.judge.uncertain_mean import UncertainMean
from normexp.claims.judge.voting import Ballot, Rules, ballot

METHOD = "mean over settings, Hartung-Knapp"
CELL_WORDS = {1: SUPPORTED, -1: REFUTED, 0: INCONCLUSIVE}


@dataclass(frozen=True, kw_only=True)
class SettingsJudgement:
    """The result of one comparison over all settings."""

    verdict: str
    scope: str
    effect: float
    interval: tuple[float, float]
    level: float
    prediction: tuple[float, float]  # for the true effect of one more setting, if drawn like these
    between: float  # deviation of the true effect from setting to setting
    worst_case: tuple[float, float]  # bounds of the effect for any values of failed runs
    n_seeds: int  # most seeds of a setting
    pairs: int
    settings: list[dict[str, Any]]
    failures: dict[str, Any]
    p_raw: float
    p_adjusted: float
    method: str = METHOD
    note: str
    comparison: dict[str, Any]


def judge_settings(
    settings: list[Setting], comparisons: list[Comparison], rules: Rules
) -> list[SettingsJudgement]:
    """Judge every comparison of a claim over its settings. They are one Holm family, as within one setting."""
    drafts = [ballot(settings, comparison, rules) for comparison in comparisons]
    pooled = [pool_settings(draft.voting) if len(draft.voting) > 1 else None for draft in drafts]
    raw = [
        1.0 if own is None else _p(own, draft.comparison) for own, draft in zip(pooled, drafts, strict=True)
    ]
    return [
        _judged(draft, own, p, adjusted, rules)
        for draft, own, p, adjusted in zip(drafts, pooled, raw, holm(raw).tolist(), strict=True)
    ]


def _p(pooled: Pooled, comparison: Comparison) -> float:
    regions = comparison.supporting(), comparison.refuting()
    return float(min(p_region(pooled.mean, region) for region in regions))


def _judged(
    draft: Ballot, pooled: Pooled | None, raw: float, adjusted: float, rules: Rules
) -> SettingsJudgement:
    voting = [effect.setting for effect in draft.voting]
    pairs = sum(len(effect.seeds) for effect in draft.voting)
    left_out = (
        rules.failed == "left_out"
        and rules.measure == "value"
        and (draft.failures.arm or draft.failures.baseline)
    )
    if pooled is None:
        nothing = np.zeros(len(voting))
        decision = Decision(np.array(INCONCLUSIVE), np.array(1.0), nothing, nothing)
        mean, between, prediction = UncertainMean(np.nan, 0.0, 1.0), 0.0, (-np.inf, np.inf)
    else:
        cells = UncertainMean(
            *(
                np.array([getattr(e.mean, field.name) for e in draft.voting])
                for field in dataclasses.fields(UncertainMean)
            )
        )
        decision = decide_over_settings(draft.comparison, pooled, cells, pairs, rules.alpha, adjusted)
        mean, between = pooled.mean, float(pooled.between)
        first, last = pooled.prediction(1 - rules.alpha)
        prediction = float(first), float(last)
    low, high = mean.interval(1 - rules.alpha)
    word = str(decision.word)
    found = _settings(draft, decision, rules)
    bounds = [row["worst_case"] for row in found if row["votes"]] or [(-np.inf, np.inf)]
    return SettingsJudgement(
        verdict=word,
        scope=scope(voting, decision, left_out=bool(left_out)),
        effect=float(mean.effect),
        interval=(float(low), float(high)),
        level=1 - rules.alpha,
        prediction=prediction,
        between=between**0.5,
        worst_case=tuple(np.mean(bounds, axis=0).tolist()),
        n_seeds=max((len(effect.seeds) for effect in draft.effects), default=0),
        pairs=pairs,
        settings=found,
        failures=draft.failures.shown(),
        p_raw=raw,
        p_adjusted=float(decision.p) if word == VARIES else adjusted,
        note=_note(decision, voting, pairs, adjusted, rules, pooled),
        comparison=draft.comparison.shown(),
    )


def _note(
    decision: Decision, voting: list[Setting], pairs: int, p: float, rules: Rules, pooled: Pooled | None
) -> str:
    if str(decision.word) != INCONCLUSIVE:
        return ""
    spread = 0.0 if pooled is None else float(pooled.between)
    noise = 0.0 if pooled is None else float(pooled.mean.variance) * len(voting) - spread
    side = np.sign(decision.points.sum()) if len(voting) else 0
    return why_inconclusive(
        voting=len(voting),
        fewest=FEWEST_SETTINGS,
        pairs=pairs,
        fewest_pairs=FEWEST_PAIRS_TOGETHER,
        decided=p <= rules.alpha,
        points=decision.points,
        against=int((decision.cells == -side).sum()),
        noise=noise / (noise + spread) if noise + spread > 0 else 1.0,
    )


def _settings(draft: Ballot, decision: Decision, rules: Rules) -> list[dict[str, Any]]:
    """A row per setting: its result, and whether it votes."""
    words = iter(decision.cells.tolist())
    rows = []
    for effect, flag in zip(draft.effects, draft.flags, strict=True):
        failures = count_failures([effect.setting], draft.comparison)
        seen = {"name": effect.setting.name, **effect.setting.labels, "votes": not flag, "flag": flag}
        mean = effect.mean
        bounds = (mean.effect, mean.effect) if mean and rules.measure == "failed" else worst_case(
            effect.setting, draft.comparison, rules.better
        )  # fmt: skip
        rows.append(
            seen
            | {
                "verdict": "" if flag else CELL_WORDS[int(next(words))],
                "effect": None if mean is None else float(mean.effect),
                "interval": None if mean is None else mean.interval(1 - rules.alpha),
                "pairs": len(effect.seeds),
                "failures": {"arm": failures.arm, "baseline": failures.baseline, "of": failures.pairs},
                "worst_case": bounds,
            }
        )
    return rows
