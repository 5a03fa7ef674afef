"""From a table of evidence in one setting to one of three words, with the numbers behind it."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.judge.comparison import TRENDS, Comparison
from normexp.claims.judge.estimate import (
    ALPHA,
    RANK_SEEDS,
    RankEstimate,
    UncertainMean,
    holm,
    mean_of,
    p_region,
    seeds_to_decide,
)
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.setting_effect import complete_cases, effects_of_seeds

SUPPORTED, REFUTED, INCONCLUSIVE = "supported", "refuted", "inconclusive"
FEWEST_SEEDS = 5
DIVERGED = "every run that is compared diverged, so nothing is known of their difference"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of one comparison."""

    verdict: str
    effect: float
    interval: tuple[float, float]
    level: float  # of the interval; 1 if the interval is the range of all values
    n_seeds: int
    method: str
    p_raw: float | None = None  # smallest alpha at which the word holds; None for universal sentences
    p_adjusted: float | None = None  # after Holm, within the claim
    more_seeds: int | None = None  # so many would likely decide; None if decided or beyond reach
    note: str = ""
    comparison: dict[str, Any]


def judge_one_setting(
    table: pd.DataFrame,
    comparisons: list[Comparison],
    *,
    better: str | None = None,
    looks: int = 1,
    trained: bool = False,
) -> list[Judgement]:
    """Judge every comparison of a claim. The comparisons of one claim are one Holm family.

    A comparison supports its sentence if the whole interval lies where the sentence puts the effect. It refutes the
    sentence if the whole interval lies elsewhere. `looks` is how often the claim may be judged while seeds are added.
    Each look spends alpha / looks, so all looks together err in at most alpha of the cases.

    For values that were `trained`, the effect is always the mean over the seeds at which every compared run gave a
    number, and five equal effects are no proof. For laws and networks at initialization, an infinite value is
    infinitely bad and is judged by ranks, and equal effects are exact.

    Raises ValueError with fewer than five seeds, because fewer rank nothing.
    """
    n = table["seed"].nunique()
    if n < FEWEST_SEEDS:
        raise ValueError(f"seeds={n}: fewer than {FEWEST_SEEDS} seeds rank nothing; add seeds")
    setting = Setting.of_table(table)
    known = [None if own.kind == "every" else _estimate(setting, own, better, trained) for own in comparisons]
    raw = [p_decided(own[0], each) for own, each in zip(known, comparisons, strict=True) if own]
    adjusted = iter(holm(raw).tolist()) if raw else iter(())
    return [
        _decide(each, *own, n, next(adjusted), ALPHA / looks) if own else _judge_universal(table, each)
        for own, each in zip(known, comparisons, strict=True)
    ]


def _estimate(
    setting: Setting, comparison: Comparison, better: str | None, trained: bool
) -> tuple[UncertainMean | RankEstimate, int, str]:
    """The effect over seeds, the number of seeds behind it, and why nothing is known, if so. Effects are ranked if the
    claim asks for it, or if a value of untrained networks is infinite: the values say so, not the effects, because two
    diverged runs tie, and their difference of 0 is not measured."""
    own = complete_cases(setting, comparison) if trained else comparison.reads(setting.outcomes)
    seeds, n = (
        len(next(iter(outcomes.values())).seeds) for outcomes in (setting.outcomes, own or setting.outcomes)
    )
    unknown = UncertainMean(0.0, 0.0, n - 1)
    if trained and n < FEWEST_SEEDS:
        why = (
            f"every run that is compared trained at {n} of {seeds} seeds, and {FEWEST_SEEDS} are needed; claims over "
            "several settings judge failure too (metric: failed, or failed: guess)"
        )
        return replace(unknown, effect=math.nan), n, why
    diverged = np.array([outcomes.failed for outcomes in own.values()])
    if diverged.size and diverged.all() and (comparison.baseline is not None or comparison.kind in TRENDS):
        return unknown, n, DIVERGED
    effects = effects_of_seeds(own, comparison, better) if trained else comparison.effects(own, better)
    if comparison.by == "rank" or diverged.any() or not np.isfinite(effects).all():
        return RankEstimate(effects), n, ""
    equal = trained and not np.ptp(effects)
    why = "all effects are equal, so the measure resolves too little" if equal else ""
    return mean_of(effects, exact=not trained), n, why


def p_decided(estimate: UncertainMean | RankEstimate, comparison: Comparison) -> float:
    """The smallest alpha at which the comparison is supported or refuted."""
    return float(min(p_region(estimate, comparison.supporting()), p_region(estimate, comparison.refuting())))


def _decide(
    comparison: Comparison,
    estimate: UncertainMean | RankEstimate,
    n: int,
    note: str,
    seeds: int,
    p_adjusted: float,
    alpha: float,
) -> Judgement:
    """The word for one estimate from `n` of all `seeds`."""
    word, more = INCONCLUSIVE, None
    few = isinstance(estimate, RankEstimate) and n < RANK_SEEDS
    if p_adjusted <= alpha and not few:
        supports = p_region(estimate, comparison.supporting()) <= p_region(estimate, comparison.refuting())
        word = SUPPORTED if supports else REFUTED
    elif few:
        more, note = RANK_SEEDS - n, f"a rank test (values are infinite, or ranks) needs {RANK_SEEDS} seeds"
    elif not note:
        more = seeds_to_decide(estimate, n, [*comparison.supporting(), *comparison.refuting()], alpha)
        note = (
            f"about {more} more seeds would likely decide"
            if more is not None
            else "the effect is so near the smallest one that matters that more seeds would hardly decide"
        )
    if FEWEST_SEEDS <= n < seeds:
        left_out = f"given that all trained: {seeds - n} of {seeds} seeds are left out"
        note = f"{left_out}; {note}".removesuffix("; ")
    return Judgement(
        verdict=word,
        effect=float(estimate.effect),
        interval=estimate.interval(1 - alpha),
        level=1 - alpha,
        n_seeds=n if n >= FEWEST_SEEDS else seeds,
        method=estimate.method,
        p_raw=p_decided(estimate, comparison),
        p_adjusted=p_adjusted,
        more_seeds=more,
        note=note,
        comparison=comparison.shown(),
    )


def _judge_universal(table: pd.DataFrame, comparison: Comparison) -> Judgement:
    """A universal sentence: one counterexample refutes, and any number of examples only supports.

    Each single value is checked against its bound. The effect is the value that fails most, or passes most narrowly.

    The interval is the range of all values. A value that is not a number fails.
    """
    rows = table if comparison.arm is None else table[table["arm"] == comparison.arm]
    if comparison.at is not None:
        rows = rows[rows["factor"] == comparison.at]
    if rows.empty:
        raise ValueError(f"comparison: no value of arm={comparison.arm} at={comparison.at}; check the yaml")
    levels = list(dict.fromkeys(table["factor"]))
    excess = np.array([outside(comparison, row, levels) for row in rows.itertuples(index=False)])
    worst = rows.iloc[int(np.argmax(excess))]
    where = f"arm={worst['arm']}" + (f" factor={worst['factor']}" if worst["factor"] != "" else "")
    where = str(worst["case"]) if "case" in rows else f"{where} seed={worst['seed']}"
    failing = int((excess > 0).sum())
    return Judgement(
        verdict=REFUTED if failing else SUPPORTED,
        effect=float(worst["value"]),
        interval=(float(rows["value"].min()), float(rows["value"].max())),
        level=1.0,
        n_seeds=table["seed"].nunique(),
        method="counterexample" if failing else f"no counterexample in {len(rows)} cases",
        note=f"{failing} of {len(rows)} cases fail, the worst: {where}" if failing else "",
        comparison=comparison.shown(),
    )


def outside(comparison: Comparison, row: Any, levels: list) -> float:
    """How far a value lies outside its bound; 0 or below if it lies within."""
    if np.isnan(row.value):
        return float("inf")
    found = []
    if comparison.at_most is not None:
        found.append(row.value - _bound(comparison.at_most, row, levels))
    if comparison.at_least is not None:
        found.append(_bound(comparison.at_least, row, levels) - row.value)
    if comparison.equals is not None:
        found.append(abs(row.value - _bound(comparison.equals, row, levels)) - comparison.tolerance)
    return max(found)


def _bound(bound: Any, row: Any, levels: list) -> float:
    if isinstance(bound, dict):
        bound = bound[row.arm]
    return bound[levels.index(row.factor)] if isinstance(bound, list) else bound
