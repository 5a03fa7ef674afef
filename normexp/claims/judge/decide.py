"""From a table of evidence to one of three words, with the numbers behind it."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from normexp.claims.judge.comparison import Comparison, Region
from normexp.claims.judge.estimate import RANK_SEEDS, Estimate, MeanEstimate, RankEstimate, TiedEstimate
from normexp.claims.judge.evidence_table import given_all_trained
from normexp.claims.judge.holm import holm
from normexp.claims.judge.noise import without_rounding
from normexp.claims.judge.power import seeds_to_decide, seeds_to_decide_by_rank
from normexp.claims.judge.universal import judge_universal

Word = Literal["supported", "refuted", "inconclusive"]
ALPHA = 0.05
FEWEST_SEEDS = 5
GIVEN = "given that all trained"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of one comparison."""

    verdict: Word
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


def judge(
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
    alpha = ALPHA / looks
    drafts = [_draft(table, comparison, better, trained) for comparison in comparisons]
    raw = {i: draft[1] for i, draft in enumerate(drafts) if not isinstance(draft, Judgement)}
    adjusted = dict(zip(raw, holm(list(raw.values())).tolist(), strict=True))
    found = [
        draft if isinstance(draft, Judgement) else decide(comparisons[i], *draft, adjusted[i], alpha)
        for i, draft in enumerate(drafts)
    ]
    return [_said(judgement, n) for judgement in found] if trained else found


def _said(judgement: Judgement, seeds: int) -> Judgement:
    """Add to the note if the mean is over fewer than all seeds."""
    if judgement.n_seeds == seeds or judgement.comparison["kind"] == "every":
        return judgement
    left_out = f"{GIVEN}: {seeds - judgement.n_seeds} of {seeds} seeds are left out"
    return replace(judgement, note=f"{left_out}; {judgement.note}".removesuffix("; "))


def overall(judgements: list[Judgement]) -> tuple[Word, Judgement]:
    """The word, and the comparison that decided it. A sentence holds if all its comparisons hold, and falls with one of
    them."""
    for word in ("refuted", "inconclusive", "supported"):
        for judgement in judgements:
            if judgement.verdict == word:
                return word, judgement
    raise ValueError("claim: it has no comparison; add one")


def _draft(
    table: pd.DataFrame, comparison: Comparison, better: str | None, trained: bool
) -> Judgement | tuple[Estimate, float]:
    if comparison.kind == "every":
        found = judge_universal(table, comparison)
        return Judgement(**found, level=1.0, n_seeds=table["seed"].nunique(), comparison=comparison.shown())
    if not trained:
        estimate = comparison.estimate(table, better)
        return estimate, p_decided(estimate, comparison)
    kept = given_all_trained(table, comparison)
    if kept["seed"].nunique() < FEWEST_SEEDS:
        return _nothing_known(comparison, table["seed"].nunique(), kept["seed"].nunique())
    effects = without_rounding(comparison.effects(kept, better)[0], kept["value"].abs().max())
    estimate = (
        RankEstimate(effects, effects) if comparison.by == "rank" else MeanEstimate(effects, exact=False)
    )
    return estimate, p_decided(estimate, comparison)


def _nothing_known(comparison: Comparison, seeds: int, kept: int) -> Judgement:
    return Judgement(
        verdict="inconclusive",
        effect=math.nan,
        interval=(-math.inf, math.inf),
        level=1 - ALPHA,
        n_seeds=seeds,
        method="paired t",
        p_raw=1.0,
        p_adjusted=1.0,
        note=f"every run that is compared trained at {kept} of {seeds} seeds, and {FEWEST_SEEDS} are needed; claims "
        "over several settings judge failure too (metric: failed, or failed: guess)",
        comparison=comparison.shown(),
    )


def p_decided(estimate: Estimate, comparison: Comparison) -> float:
    """The smallest alpha at which the comparison is supported or refuted."""
    return min(_p(estimate, comparison.supporting()), _p(estimate, comparison.refuting()))


def _p(estimate: Estimate, region: Region) -> float:
    return min(estimate.p_within(low, high) for low, high in region)


def decide(
    comparison: Comparison,
    estimate: Estimate,
    p_raw: float,
    p_adjusted: float,
    alpha: float,
) -> Judgement:
    """The word for one estimate."""
    word: Word = "inconclusive"
    note, more = "", None
    few = isinstance(estimate, RankEstimate) and estimate.n < RANK_SEEDS
    if p_adjusted <= alpha and not few:
        supports = _p(estimate, comparison.supporting()) <= _p(estimate, comparison.refuting())
        word = "supported" if supports else "refuted"
    elif isinstance(estimate, TiedEstimate):
        note = "every run that is compared diverged, so nothing is known of their difference"
    elif isinstance(estimate, MeanEstimate) and not estimate.exact and not estimate.deviation:
        note = "all effects are equal, so the measure resolves too little"
    elif few:
        more = RANK_SEEDS - estimate.n
        note = f"a rank test (values are infinite, censored or ranks) needs {RANK_SEEDS} seeds"
    else:
        regions = [*comparison.supporting(), *comparison.refuting()]
        if isinstance(estimate, MeanEstimate):
            more = seeds_to_decide(estimate, regions, alpha)
        else:
            more = seeds_to_decide_by_rank(estimate, regions, alpha)
        if more is not None:
            note = f"about {more} more seeds would likely decide"
        elif isinstance(estimate, MeanEstimate):
            note = "the effect is so near the smallest one that matters that more seeds would hardly decide"
        else:
            note = "ranks do not tell how many more seeds would decide"
    return Judgement(
        verdict=word,
        effect=estimate.effect,
        interval=estimate.interval(1 - alpha),
        level=1 - alpha,
        n_seeds=estimate.n,
        method=estimate.method,
        p_raw=p_raw,
        p_adjusted=p_adjusted,
        more_seeds=more,
        note=note,
        comparison=comparison.shown(),
    )
