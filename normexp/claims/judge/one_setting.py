"""From a table of evidence in one setting to a word: of a law by mathematics or a counterexample, of networks only what
was seen there."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean, holm
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting
from normexp.runs.table import FEWEST_SEEDS

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
LEVEL = 1 - ALPHA


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of one comparison in one setting. The interval of a universal sentence is the range of all values."""

    verdict: str
    effect: float
    interval: Ends
    n_seeds: int
    method: str
    note: str = ""
    comparison: dict[str, Any]


def judge_one_setting(
    table: pd.DataFrame, comparisons: list[Comparison], *, trained: bool = False
) -> list[Judgement]:
    """Judge every comparison of a claim. The comparisons of one claim are one Holm family.

    A comparison supports its sentence if the whole 95% interval lies where the sentence puts the effect, and refutes it
    if the whole interval lies elsewhere. For values that were `trained`, the effect is the mean over the seeds at which
    every compared run gave a number, and equal effects are no proof; those of laws and of initial networks are exact.

    Raises ValueError with fewer than five seeds, because fewer rank nothing.
    """
    n = table["seed"].nunique()
    if n < FEWEST_SEEDS:
        raise ValueError(f"seeds={n}: fewer than {FEWEST_SEEDS} seeds rank nothing; add seeds")
    outcomes = Setting.of_table(table).outcomes
    known = {
        place: _estimate(outcomes, comparison, trained)
        for place, comparison in enumerate(comparisons)
        if comparison.kind != "every"
    }
    raw = [_p(estimate, comparisons[place]) for place, (estimate, *_) in known.items()]
    adjusted = dict(zip(known, holm(raw), strict=True))
    return [
        _decided(comparison, *known[place], adjusted[place])
        if place in known
        else _judge_universal(table, comparison)
        for place, comparison in enumerate(comparisons)
    ]


def paired_runs(own: dict[Arm, Outcomes]) -> dict[Arm, Outcomes]:
    """The runs of the seeds at which every one of them gave a number."""
    trained = ~np.any([outcomes.failed for outcomes in own.values()], axis=0)
    return {arm: outcomes.at(trained) for arm, outcomes in own.items()}


def _estimate(outcomes: Any, comparison: Comparison, trained: bool) -> tuple[SeedMean, int, str]:
    """The effect over seeds, the number of seeds behind it, and why nothing is known, if so."""
    own = comparison.reads(outcomes)
    seeds = len(next(iter(outcomes.values())).seeds)
    own = paired_runs(own)
    n = len(next(iter(own.values())).seeds) if own else seeds
    if n < seeds and not trained:
        return SeedMean(math.nan, 0.0, n - 1.0), n, f"{seeds - n} of {seeds} values are not finite"
    if n < FEWEST_SEEDS:
        return SeedMean(math.nan, 0.0, n - 1.0), n, f"every arm trained at {n} of {seeds} seeds"
    effects = comparison.effects(own)
    notes = [f"{seeds - n} of {seeds} seeds are left out, in which a run failed"] * (n < seeds)
    notes += ["all effects are equal, so the measure resolves too little"] * (trained and not np.ptp(effects))
    return SeedMean.of(effects, exact=not trained), n, "; ".join(notes)


def _p(estimate: SeedMean, comparison: Comparison) -> float:
    """The smallest alpha at which the comparison is supported or refuted."""
    margin = float(comparison.margin)
    return min(estimate.p_within(comparison.region(margin)), estimate.p_within(comparison.complement(margin)))


def _decided(comparison: Comparison, estimate: SeedMean, n: int, note: str, p: float) -> Judgement:
    margin, word = float(comparison.margin), UNDECIDED
    if p <= ALPHA:
        inside = estimate.p_within(comparison.region(margin)) < estimate.p_within(
            comparison.complement(margin)
        )
        word = SUPPORTED if inside else REFUTED
    return Judgement(
        verdict=word,
        effect=estimate.effect,
        interval=estimate.interval(LEVEL),
        n_seeds=n,
        method="paired t",
        note=note,
        comparison=comparison.shown(),
    )


def _judge_universal(table: pd.DataFrame, comparison: Comparison) -> Judgement:
    """A universal sentence: one counterexample refutes, and any number of examples only supports.

    Each single value is checked against its bound. The effect is the value that fails most, or passes most narrowly.
    A value that is not a number fails.
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
