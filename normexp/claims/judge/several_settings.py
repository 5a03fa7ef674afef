"""From the runs of several settings to a word with its scope, and all the numbers behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from normexp.claims.judge import failures, tuning
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, UncertainMean, holm, p_region
from normexp.claims.judge.failures import Failures, count_failures, failed_pairs, saturation, worst_case
from normexp.claims.judge.one_setting import INCONCLUSIVE, REFUTED, SUPPORTED, Judgement, p_decided
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.random_effects import (
    FEWEST_PAIRS_TOGETHER,
    FEWEST_SETTINGS,
    POINTING,
    VARIES,
    Decision,
    Pooled,
    cells_of,
    covariances,
    decide_over_settings,
    pool_settings,
)
from normexp.claims.judge.setting_effect import FEWEST_PAIRS, SettingEffect, effect_in

METHOD = "mean over settings, Hartung-Knapp"
CELL_WORDS = {1: SUPPORTED, -1: REFUTED, 0: INCONCLUSIVE}
# The constants behind every verdict over settings. A registered protocol holds them.
RULES = {
    "alpha": ALPHA,
    "settings that vote, at least": FEWEST_SETTINGS,
    "pairs in a setting that votes, at least": FEWEST_PAIRS,
    "pairs together, at least": FEWEST_PAIRS_TOGETHER,
    "share of settings that point one way, at least": POINTING,
    "wrong answers a run below which a setting is at its ceiling": failures.FEWEST_WRONG,
    "share of guessing above which a setting is at its floor": failures.FLOOR,
    "p above which a run never got above chance": failures.ABOVE_CHANCE,
    "share of seeds at an edge above which a grid is widened": tuning.EDGE_SHARE,
    "widenings, at most": tuning.MOST_WIDENINGS,
}


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


@dataclass(frozen=True, kw_only=True)
class SettingsJudgement(Judgement):
    """The result of one comparison over all settings."""

    scope: str
    prediction: tuple[float, float]  # for the true effect of one more setting, if drawn like these
    between: float  # deviation of the true effect from setting to setting
    worst_case: tuple[float, float]  # bounds of the effect for any values of failed runs
    pairs: int  # `n_seeds` is the most seeds of a setting
    settings: list[dict[str, Any]]
    failures: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Ballot:
    """The effects of one comparison in every setting, those of the settings that vote, and the runs that failed."""

    comparison: Comparison
    effects: list[SettingEffect]
    flags: list[str]  # why a setting does not vote; empty if it does
    failures: Failures

    @property
    def voting(self) -> list[SettingEffect]:
        return [effect for effect, flag in zip(self.effects, self.flags, strict=True) if not flag]


def judge_settings(
    settings: list[Setting], comparisons: list[Comparison], rules: Rules
) -> list[SettingsJudgement]:
    """Judge every comparison of a claim over its settings. They are one Holm family, as within one setting."""
    drafts = [_ballot(settings, comparison, rules) for comparison in comparisons]
    pooled = [pool_settings(draft.voting) if len(draft.voting) > 1 else None for draft in drafts]
    raw = [
        p_decided(own.mean, draft.comparison) if own else 1.0
        for own, draft in zip(pooled, drafts, strict=True)
    ]
    each = zip(drafts, pooled, raw, holm(raw).tolist(), strict=True)
    return [_judged(draft, own, p, adjusted, rules) for draft, own, p, adjusted in each]


def _ballot(settings: list[Setting], comparison: Comparison, rules: Rules) -> Ballot:
    effects = [effect_of(setting, comparison, rules) for setting in settings]
    flags = [_flag(effect, comparison, rules) for effect in effects]
    return Ballot(comparison, effects, flags, count_failures(settings, comparison))


def effect_of(setting: Setting, comparison: Comparison, rules: Rules) -> SettingEffect:
    """The effect in one setting: of values, or of failures if the rules count these."""
    if rules.measure == "value":
        return effect_in(setting, comparison, rules.failed, rules.better)
    pairs = failed_pairs(setting, comparison)
    influence = pairs[:, 0].astype(float) - pairs[:, 1]
    own = list(comparison.reads(setting.outcomes).values())
    runs = frozenset(name for outcomes in own for name in outcomes.runs)
    mean = failures.difference_of_failures(pairs) if len(pairs) >= FEWEST_PAIRS else None
    return SettingEffect(setting, mean, own[0].seeds, influence - influence.mean(), runs)


def _flag(effect: SettingEffect, comparison: Comparison, rules: Rules) -> str:
    """Why a setting does not vote; empty if it does."""
    if effect.mean is None:
        return f"fewer than {FEWEST_PAIRS} pairs of runs"
    if rules.measure == "failed":
        return ""
    return saturation(effect.setting, comparison.reads(effect.setting.outcomes).values())


def _judged(
    draft: Ballot, pooled: Pooled | None, raw: float, adjusted: float, rules: Rules
) -> SettingsJudgement:
    voting, pairs = draft.voting, sum(len(effect.seeds) for effect in draft.voting)
    if pooled is None:
        nothing = np.zeros(len(voting))
        decision = Decision(np.array(INCONCLUSIVE), np.array(1.0), nothing, nothing)
        pooled = Pooled(UncertainMean(np.nan, 0.0, 1.0), 0.0, 0)
    else:
        decision = decide_over_settings(
            draft.comparison, pooled, cells_of(voting), pairs, rules.alpha, adjusted
        )
    word, level = str(decision.word), 1 - rules.alpha
    rows = _rows(draft, decision, rules)
    bounds = [row["worst_case"] for row in rows if row["votes"]] or [(-np.inf, np.inf)]
    left_out = rules.failed == "left_out" and rules.measure == "value"
    left_out = left_out and bool(draft.failures.arm or draft.failures.baseline)
    return SettingsJudgement(
        verdict=word,
        scope=_scope([effect.setting for effect in voting], decision, left_out=left_out),
        effect=float(pooled.mean.effect),
        interval=_floats(pooled.mean.interval(level)),
        level=level,
        prediction=_floats(pooled.prediction(level)),
        between=float(pooled.between) ** 0.5,
        worst_case=_floats(np.mean(bounds, axis=0)),
        n_seeds=max((len(effect.seeds) for effect in draft.effects), default=0),
        pairs=pairs,
        settings=rows,
        failures=draft.failures.shown(),
        p_raw=raw,
        p_adjusted=float(decision.p) if word == VARIES else adjusted,
        method=METHOD,
        note=_why_inconclusive(decision, pooled, pairs, adjusted, rules.alpha)
        if word == INCONCLUSIVE
        else "",
        comparison=draft.comparison.shown(),
    )


def _floats(ends: Sequence) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


def _rows(draft: Ballot, decision: Decision, rules: Rules) -> list[dict[str, Any]]:
    """A row per setting: its result, and whether it votes."""
    words = iter(decision.cells.tolist())
    rows = []
    for effect, flag in zip(draft.effects, draft.flags, strict=True):
        failed, mean = count_failures([effect.setting], draft.comparison), effect.mean
        if mean and rules.measure == "failed":
            bounds = (mean.effect, mean.effect)
        else:
            bounds = worst_case(effect.setting, draft.comparison, rules.better)
        rows.append(
            {
                "name": effect.setting.name,
                **effect.setting.labels,
                "votes": not flag,
                "flag": flag,
                "verdict": "" if flag else CELL_WORDS[int(next(words))],
                "effect": None if mean is None else float(mean.effect),
                "interval": None if mean is None else mean.interval(1 - rules.alpha),
                "pairs": len(effect.seeds),
                "failures": {"arm": failed.arm, "baseline": failed.baseline, "of": failed.pairs},
                "worst_case": bounds,
            }
        )
    return rows


def _scope(settings: Sequence[Setting], decision: Decision, *, left_out: bool) -> str:
    """The scope of a word over the settings that vote, "in 7 of 8 settings (digits, MNIST; MLP, CNN)", with the values
    of each label. `left_out`: some runs failed and are left out."""
    word, count = str(decision.word), len(settings)
    if word == INCONCLUSIVE:
        where = f"in {count} settings"
    elif word == VARIES:
        where = f"supported in {(decision.cells == 1).sum()} and refuted in {(decision.cells == -1).sum()} of {count}"
    else:
        where = f"in {(decision.points == (1 if word == SUPPORTED else -1)).sum()} of {count} settings"
    labels = dict.fromkeys(label for setting in settings for label in setting.labels)
    values = [dict.fromkeys(s.labels[label] for s in settings if label in s.labels) for label in labels]
    found = "; ".join(", ".join(own) for own in values)
    return where + (f" ({found})" if found else "") + (", given that both trained" if left_out else "")


def _why_inconclusive(decision: Decision, pooled: Pooled, pairs: int, p: float, alpha: float) -> str:
    """The first reason why there is no word."""
    voting = len(decision.points)
    if voting < FEWEST_SETTINGS:
        return f"{voting} settings vote, and {FEWEST_SETTINGS} are needed"
    if pairs < FEWEST_PAIRS_TOGETHER:
        more = -(-(FEWEST_PAIRS_TOGETHER - pairs) // voting)
        seeds = f"{more} more seed{'s' * (more > 1)} in each setting"
        return f"{pairs} pairs of runs, and {FEWEST_PAIRS_TOGETHER} are needed; {seeds}"
    if p > alpha:
        total = float(pooled.mean.variance) * voting  # of the spread over settings, seeds explain the rest
        if total > 0 and total - pooled.between < 0.5 * total:
            return (
                "settings differ by more than seeds explain, so that more settings would help and more seeds would "
                "not"
            )
        return "more seeds would help: between-setting variance is within seed noise"
    if against := int((decision.cells == -np.sign(decision.points.sum())).sum()):
        return f"the mean decides, but {against} of {voting} settings decide otherwise"
    most = max((decision.points == 1).sum(), (decision.points == -1).sum())
    return f"the mean decides, but only {most} of {voting} settings point that way"


class ContrastJudgement(NamedTuple):
    """Whether a word depends on X: groups of settings that differ only in `varies`, each with its word. Only a
    registered contrast that varies X alone and holds on fresh seeds can say so.

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
        named = {
            word: [own["name"] for own in self.groups if own["verdict"] == word]
            for word in (SUPPORTED, REFUTED)
        }
        return ", ".join(f"{word} where {' or '.join(names)}" for word, names in named.items() if names)


def judge_contrast(
    varies: str, groups: dict[str, list[Setting]], comparison: Comparison, rules: Rules, seen: set[int]
) -> ContrastJudgement:
    """Judge each group of settings that have the same value of X. The groups differ in nothing else.

    The word depends on X if at least one group supports the sentence and one refutes it, after Holm over the groups,
    each with 60 pairs of runs. The mean of a group is about its own settings only, so the spread over settings does not
    enter. `seen` holds the seeds of the verdict that suggested the contrast. Raises ValueError if one of them is used.
    """
    found = {
        name: [effect_of(own, comparison, rules) for own in settings] for name, settings in groups.items()
    }
    used = {int(seed) for effects in found.values() for effect in effects for seed in effect.seeds}
    if used & seen:
        raise ValueError(
            f"contrast={varies}: seed {min(used & seen)} was seen by the verdict before; a contrast takes fresh seeds, "
            "set its first_seed beyond them"
        )
    means = [mean_of_group(effects) for effects in found.values()]
    regions = comparison.supporting(), comparison.refuting()
    sides = [
        (1.0, 1.0) if mean is None else tuple(float(p_region(mean, own)) for own in regions) for mean in means
    ]
    adjusted, rows = holm([min(p) for p in sides]).tolist(), []
    smallest = {SUPPORTED: 1.0, REFUTED: 1.0}
    for (name, effects), mean, (p_for, p_against), p in zip(
        found.items(), means, sides, adjusted, strict=True
    ):
        pairs = sum(len(effect.seeds) for effect in effects)
        side = SUPPORTED if p_for <= p_against else REFUTED
        smallest[side] = min(smallest[side], p)
        rows.append(
            {
                "name": name,
                "verdict": side if p <= rules.alpha and pairs >= FEWEST_PAIRS_TOGETHER else INCONCLUSIVE,
                "effect": None if mean is None else float(mean.effect),
                "interval": None if mean is None else mean.interval(1 - rules.alpha),
                "p_adjusted": p,
                "pairs": pairs,
                "settings": [effect.setting.name for effect in effects],
            }
        )
    confirmed = {SUPPORTED, REFUTED} <= {row["verdict"] for row in rows}
    return ContrastJudgement(confirmed, varies, rows, max(smallest.values()))


def mean_of_group(effects: list[SettingEffect]) -> UncertainMean | None:
    """The mean over exactly these settings, with Satterthwaite's degrees of freedom; None if a setting has no mean."""
    if any(effect.mean is None for effect in effects):
        return None
    k, cells = len(effects), cells_of(effects)
    covariance = covariances(effects) / k**2
    own = np.diagonal(covariance)
    df = own.sum() ** 2 / (own**2 / cells.df).sum() if own.sum() > 0 else np.min(cells.df)
    variance = max(covariance.sum(), own.sum())  # shared examples and runs may add variance, never remove it
    return UncertainMean(
        float(np.mean(cells.effect)), float(variance), float(df), float(np.sum(cells.third)) / k**3
    )
