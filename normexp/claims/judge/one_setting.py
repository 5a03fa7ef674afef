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
from normexp.claims.judge.plain_words import REFUTED, SUPPORTED, UNDECIDED
from normexp.runs.table import FEWEST_SEEDS


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
    means = [None if c.kind == "every" else _mean(outcomes, c, trained) for c in comparisons]
    pairs = list(zip(comparisons, means, strict=True))
    p = iter(holm([own[0].p_of(c, float(c.margin)) for c, own in pairs if own]))
    return [_decided(c, *own, next(p)) if own else _judge_universal(table, c) for c, own in pairs]


def paired_runs(own: dict[Arm, Outcomes]) -> dict[Arm, Outcomes]:
    """The runs of the seeds at which every one of them gave a number."""
    trained = ~np.any([outcomes.failed for outcomes in own.values()], axis=0)
    return {arm: outcomes.at(trained) for arm, outcomes in own.items()}


def _mean(outcomes: Any, comparison: Comparison, trained: bool) -> tuple[SeedMean, str]:
    """The effect over seeds, and what limits it: why nothing is known, or which seeds are left out."""
    seeds = len(next(iter(outcomes.values())).seeds)
    own = paired_runs(comparison.reads(outcomes))
    n = len(next(iter(own.values())).seeds) if own else seeds
    unknown = SeedMean(math.nan, 0.0, n - 1.0)
    if n < seeds and not trained:
        return unknown, f"{seeds - n} of {seeds} values are not finite"
    if n < FEWEST_SEEDS:
        return unknown, f"every arm trained at {n} of {seeds} seeds"
    effects = comparison.effects(own)
    notes = [f"{seeds - n} of {seeds} seeds are left out, in which a run failed"] * (n < seeds)
    notes += ["all effects are equal, so the measure resolves too little"] * (trained and not np.ptp(effects))
    return SeedMean.of(effects, exact=not trained), "; ".join(notes)


def _decided(comparison: Comparison, mean: SeedMean, note: str, p: float) -> Judgement:
    margin, word = float(comparison.margin), UNDECIDED
    if p <= ALPHA:
        inside, elsewhere = (
            mean.p_within(part) for part in (comparison.region(margin), comparison.complement(margin))
        )
        word = SUPPORTED if inside < elsewhere else REFUTED
    return Judgement(
        verdict=word, effect=mean.effect, interval=mean.interval(1 - ALPHA), n_seeds=int(mean.df) + 1,
        method="paired t", note=note, comparison=comparison.shown(),
    )  # fmt: skip


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
    worst, failing = rows.iloc[int(np.argmax(excess))], int((excess > 0).sum())
    level = f" factor={worst['factor']}" if worst["factor"] != "" else ""
    where = worst["case"] if "case" in rows else f"arm={worst['arm']}{level} seed={worst['seed']}"
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

    def bound(asked: Any) -> Any:
        asked = asked[row.arm] if isinstance(asked, dict) else asked
        return asked[levels.index(row.factor)] if isinstance(asked, list) else asked

    found = []
    if comparison.at_most is not None:
        found.append(row.value - bound(comparison.at_most))
    if comparison.at_least is not None:
        found.append(bound(comparison.at_least) - row.value)
    if comparison.equals is not None:
        found.append(abs(row.value - bound(comparison.equals)) - comparison.tolerance)
    return max(found)
