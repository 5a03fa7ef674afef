"""One difference of two arms: paired over equal seeds or not, how many seeds would decide it, and how many steps one
arm saves."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtr

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import Ends, SeedMean
from normexp.claims.judge.outcomes import Outcomes, paired_runs
from normexp.report.statistics import crossed
from normexp.runs.table import FEWEST_FOR_INTERVAL, FEWEST_SEEDS, t_quantile

DIFFERENT = Comparison(kind="different", arm="arm", baseline="baseline")
POWER = 0.8  # the chance of a decision that a number of seeds must give
MOST = 10_000  # seeds; beyond them, an effect lies at its margin
FAR = 30.0  # standard errors, from which on the noncentral t has no mass near 0
Curve = np.ndarray  # (n, 2): step and value, the lower the better, by step


@dataclass(frozen=True)
class Effect:
    """An arm minus its baseline. `spread` is the standard deviation of one seed's difference, `seeds` the number of
    pairs, or of the seeds of the smaller arm."""

    mean: SeedMean
    spread: float
    seeds: int
    paired: bool


def effect_of(arm: Outcomes, baseline: Outcomes, *, paired: bool = True) -> Effect:
    """The difference of two arms. It is paired if at least half of the seeds of the smaller arm stand in the other one,
    else it is Welch's. A failed run is left out."""
    common, mine, others = np.intersect1d(arm.seeds, baseline.seeds, return_indices=True)
    if paired and len(common) and 2 * len(common) >= min(len(arm.seeds), len(baseline.seeds)):
        known = paired_runs({("arm", ""): arm.at(mine), ("baseline", ""): baseline.at(others)})
        effects = DIFFERENT.effects(known) if len(known["arm", ""].seeds) else np.zeros(0)
        mean = SeedMean.of(effects)
        return Effect(mean, mean.error * math.sqrt(len(effects)), len(effects), True)
    samples = [outcomes.values[~outcomes.failed] for outcomes in (arm, baseline)]
    return Effect(welch(samples), spread_of(samples), min(map(len, samples)), False)


def welch(samples: Sequence[np.ndarray]) -> SeedMean:
    """The difference of two means with Welch's error and degrees of freedom; without an error if one is of fewer than
    three values."""
    arm, baseline = map(SeedMean.of, samples)
    effect, variance = arm.effect - baseline.effect, arm.error**2 + baseline.error**2
    if min(map(len, samples)) < FEWEST_FOR_INTERVAL or not variance:
        return SeedMean(effect, 0.0, 0.0)
    df = variance**2 / (arm.error**4 / arm.df + baseline.error**4 / baseline.df)
    return SeedMean(effect, math.sqrt(variance), df)


def spread_of(samples: Sequence[np.ndarray]) -> float:
    """The standard deviation of the difference of a run of each of two arms; 0 where too few say it."""
    rest = np.concatenate([sample - sample.mean() for sample in samples if len(sample)] or [np.zeros(0)])
    df = len(rest) - sum(len(sample) > 0 for sample in samples)
    return math.sqrt(2 * float(rest @ rest) / df) if df >= FEWEST_FOR_INTERVAL - 1 else 0.0


def over_examples(z: np.ndarray) -> SeedMean:
    """The mean of differences (seeds, test examples), of which both are samples; see `crossed`."""
    if len(z) < FEWEST_FOR_INTERVAL or z.shape[1] < 2:
        return SeedMean(float(z.mean()), 0.0, len(z) - 1.0)
    variance, df = crossed(z)
    return SeedMean(float(z.mean()), math.sqrt(variance), df)


def seeds_to_decide(
    effect: float, spread: float, margin: float, alpha: float, *, paired: bool, fewest: int = FEWEST_SEEDS
) -> int | None:
    """The fewest seeds an arm with which an interval of level 1 - alpha lies wholly beyond or wholly within the margin
    with a chance of `POWER`, if effect and spread are the true ones. None if it takes more than `MOST`."""
    size = abs(effect)

    def decides(n: int) -> bool:
        df, error = float(n - 1 if paired else 2 * (n - 1)), spread / math.sqrt(n)
        critical = float(t_quantile(1 - alpha, df))

        def reached(distance: float) -> float:
            away = distance / error
            return 1.0 if away > FAR + critical else 1 - float(nctdtr(df, min(away, FAR), critical))

        if size > margin:
            return reached(size - margin) >= POWER
        return reached(margin - size) + reached(margin + size) - 1 >= POWER  # it must reach neither end

    numbers = range(max(fewest, FEWEST_SEEDS), MOST + 1)
    index = bisect_left(numbers, True, key=decides)  # more seeds decide more often
    return numbers[index] if index < len(numbers) else None


def steps_ratio(pairs: Iterable[tuple[Curve, Curve]], confidence: float) -> tuple[float, Ends] | None:
    """The steps of an arm divided by those of the baseline, until both first reach an equal value: in each pair the
    best that the worse of the two came to. It is the geometric mean with its interval; None if it has none."""
    ratios = []
    for pair in pairs:
        best = [running_best(curve) for curve in pair]
        if all(map(len, best)):
            target = max(curve[-1, 1] for curve in best)
            first, second = (first_at(curve, target) for curve in best)
            ratios += [math.log(first / second)] if min(first, second) > 0 else []
    mean = SeedMean.of(np.array(ratios))
    low, high = map(math.exp, mean.interval(confidence))
    return (math.exp(mean.effect), (low, high)) if low else None


def running_best(curve: Curve) -> Curve:
    """The lowest value until each step."""
    curve = curve[np.argsort(curve[:, 0], kind="stable")]
    curve = curve[np.isfinite(curve[:, 1])]
    return np.column_stack([curve[:, 0], np.minimum.accumulate(curve[:, 1])])


def first_at(best: Curve, target: float) -> float:
    """The step at which a falling curve first has this value, between two recorded ones by a line."""
    index = int(np.argmax(best[:, 1] <= target))
    around = best[max(index - 1, 0) : index + 1][::-1]  # rising
    return float(np.interp(target, around[:, 1], around[:, 0]))
