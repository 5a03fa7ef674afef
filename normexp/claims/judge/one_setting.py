"""One setting: the mean over its seeds, or all single values of a universal sentence."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, SeedMean, holm
from normexp.claims.judge.outcomes import ByArm, Setting, arm_means, lost_runs, paired_runs, unreached_runs
from normexp.claims.judge.verdict import Case, Judgement, Verdict, Word, deciding
from normexp.claims.spec.claim import Claim
from normexp.runs.table import FEWEST_SEEDS


def judge_values(claim: Claim, table: pd.DataFrame) -> Verdict:
    """The verdict of a claim in one setting, from a table with the columns arm, factor, seed and value. Cases never
    support a universal sentence that mathematics does not prove; it then has "no counterexample" among them. Networks
    show what holds in them, and no more."""
    trained, setting = claim.evidence == "training", Setting.of_table(table)
    judgements = tuple(judge_comparisons(table, claim.comparisons, trained=trained))
    decides = deciding(judgements)
    cases = np.logical_or.reduce([_cases(table, comparison) for comparison in claim.comparisons])
    universal = all(comparison.rule.universal for comparison in claim.comparisons)
    word = decides.word
    if universal and word == Word.SUPPORTED and claim.expected != Word.SUPPORTED:
        word = Word.NO_COUNTEREXAMPLE
    elif claim.evidence != "law" and not universal:
        not_shown = Word.NOT_SHOWN_HERE if math.isfinite(decides.effect) else Word.UNDECIDED
        word = Word.HOLDS_HERE if word == Word.SUPPORTED else not_shown
    return Verdict(
        claim=claim,
        word=Word.WITHDRAWN if claim.withdrawn else word,
        confidence=1.0 if decides.comparison.rule.universal else 1 - ALPHA,
        arms=arm_means([setting]),
        failures=lost_runs([setting.outcomes] if trained else []),
        judgements=judgements,
        cases=int(cases.sum()) if universal else 0,
    )


def judge_comparisons(
    table: pd.DataFrame, comparisons: Sequence[Comparison], *, trained: bool = False
) -> list[Judgement]:
    """Judge every comparison of a claim. The comparisons of one claim are one Holm family.

    A comparison supports its sentence if the whole 95% interval lies where the sentence puts the effect, and refutes it
    if the whole interval lies elsewhere. For values that were `trained`, the effect is the mean over the seeds at which
    every compared run gave a number, and equal effects are no proof; those of laws and of initial networks are exact.
    """
    outcomes = Setting.of_table(table).outcomes
    means = [None if c.rule.universal else _mean(outcomes, c, trained) for c in comparisons]
    pairs = list(zip(comparisons, means, strict=True))
    p = iter(holm([mean.p_of(c, c.size) for c, mean in pairs if mean]))
    return [
        _of_mean(c, mean, next(p), outcomes, trained=trained) if mean else _of_values(c, table)
        for c, mean in pairs
    ]


def _mean(outcomes: ByArm, comparison: Comparison, trained: bool) -> SeedMean:
    """The effect over seeds. Nothing is known of too few that trained, or of exact values that are not all finite."""
    seeds = len(next(iter(outcomes.values())).seeds)
    paired = paired_runs(comparison.reads(outcomes))
    n = len(next(iter(paired.values())).seeds) if paired else seeds
    if n < FEWEST_SEEDS or (n < seeds and not trained):
        return SeedMean(math.nan, 0.0, n - 1.0)
    return SeedMean.of(comparison.effects(paired), exact=not trained)


def _of_mean(
    comparison: Comparison, mean: SeedMean, p: float, outcomes: ByArm, *, trained: bool
) -> Judgement:
    word, read = Word.UNDECIDED, comparison.reads(outcomes)
    sides = comparison.sides(mean.effect, comparison.size, read)
    if p <= ALPHA and len(sides) == 1:  # so the whole interval lies on one side
        word = Word.SUPPORTED if comparison.rule.true_side in sides else Word.REFUTED
    return Judgement(
        comparison=comparison, word=word, effect=mean.effect, interval=mean.interval(1 - ALPHA),
        n_seeds=int(mean.df) + 1, seeds=len(next(iter(outcomes.values())).seeds), trained=trained,
        unreached=unreached_runs(read),
        unresolved=trained and math.isfinite(mean.effect) and not mean.error,
    )  # fmt: skip


def _of_values(comparison: Comparison, table: pd.DataFrame) -> Judgement:
    """A universal sentence: one counterexample refutes, and any number of examples only supports. Each single value is
    checked against its bound. A value that is not a number fails."""
    rows = table[_cases(table, comparison)]
    levels = list(dict.fromkeys(table["factor"]))
    excess = np.array([outside(comparison, row, levels) for row in rows.itertuples(index=False)])
    worst, failing = rows.iloc[int(np.argmax(excess))], rows[excess > 0]
    alone = failing["factor"].nunique() == 1 < rows["factor"].nunique()
    return Judgement(
        comparison=comparison,
        word=Word.REFUTED if len(failing) else Word.SUPPORTED,
        effect=float(worst["value"]),
        interval=(float(rows["value"].min()), float(rows["value"].max())),
        n_seeds=table["seed"].nunique(),
        seeds=table["seed"].nunique(),
        cases=len(rows),
        failing=len(failing),
        worst=Case(worst["arm"], worst["factor"], int(worst["seed"]), str(worst.get("case", ""))),
        alone=bool(alone),
        ranges=_ranges(rows),
    )


def _ranges(rows: pd.DataFrame) -> dict[str, dict[str, tuple[float, float]]]:
    """Arm -> level -> smallest and largest value; nan where no value is a number."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for (arm, level), values in rows.groupby(["arm", "factor"], sort=False)["value"]:
        found.setdefault(str(arm), {})[str(level)] = float(values.min()), float(values.max())
    return found


def _cases(table: pd.DataFrame, comparison: Comparison) -> np.ndarray:
    """Which rows a universal sentence speaks of."""
    arm = comparison.arm is None or table["arm"] == comparison.arm
    level = comparison.at is None or table["factor"] == comparison.at
    return np.full(len(table), True) & arm & level


def outside(comparison: Comparison, row: Any, levels: list) -> float:
    """How far a value lies outside its bound; 0 or below if it lies within."""
    if np.isnan(row.value):
        return math.inf  # a value that is not a number fails

    excesses = []
    for key, bound in comparison.bounds.items():
        limit = bound[row.arm] if isinstance(bound, dict) else bound
        above = row.value - (limit[levels.index(row.factor)] if isinstance(limit, list) else limit)
        away = abs(above) - comparison.tolerance
        if comparison.tolerance and away <= 4 * np.finfo(float).eps * abs(row.value):
            away = min(away, 0.0)  # 0.8 lies within 0.1 of 0.7, whatever the subtraction gives
        excesses.append({"at_most": above, "at_least": -above, "equals": away}[key])
    return max(excesses)
