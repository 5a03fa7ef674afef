"""Means with intervals, and paired differences, over seeds and test examples."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from normexp.runs.table import FEWEST_FOR_INTERVAL, half_widths, t_quantile

LEVEL = 0.95


class Estimate(NamedTuple):
    """A mean with its interval. `low` and `high` are NaN if there are fewer than three values, and `few` has these."""

    mean: float
    low: float
    high: float
    n: int
    few: tuple[float, ...] = ()


NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True, eq=False)
class Values:
    """Final values of the runs of one point."""

    keys: Sequence[tuple]  # what pairs runs: seed and kind of execution, each once
    values: np.ndarray  # (n,)
    # (n, E), the same value on each test example; None if a run kept none, or if their test sets differ
    examples: np.ndarray | None = None
    test_set: str = ""  # digest of the test examples
    answer: float = 0.0  # what one answer is worth, 1 / (number of answers), for an accuracy; 0 for a loss
    # the smallest and the largest possible value, at which an interval of the mean ends
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def mean(self, level: float = LEVEL) -> Estimate:
        """The mean with its interval."""
        result = estimate(self.values, level, self.examples, self.answer**2)
        least, most = self.bounds
        return result._replace(low=max(result.low, least), high=min(result.high, most))

    def minus(self, other: "Values", level: float = LEVEL) -> Estimate:
        """self - other over common keys. Equal seeds start with equal weights and batches; that noise cancels."""
        index_of = {key: index for index, key in enumerate(other.keys)}
        pairs = [(i, index_of[key]) for i, key in enumerate(self.keys) if key in index_of]
        if not pairs:
            return NOTHING
        mine, theirs = map(list, zip(*pairs, strict=True))
        examples = None
        if self.examples is not None and other.examples is not None and self.test_set == other.test_set:
            examples = self.examples[mine] - other.examples[theirs]
        resolution = self.answer**2 + other.answer**2
        result = estimate(self.values[mine] - other.values[theirs], level, examples, resolution)
        widest = self.bounds[1] - self.bounds[0]
        return result._replace(low=max(result.low, -widest), high=min(result.high, widest))


def estimate(
    values: Iterable[float], level: float = LEVEL, examples: np.ndarray | None = None, resolution: float = 0.0
) -> Estimate:
    """Mean and t interval of the values that are numbers.

    With `examples` (n, E), both the seeds and the test examples are samples: the variances of the crossed design, to
    which `resolution` adds what a test set cannot show. Equal values alone have no interval, because they show nothing
    of the noise; nor have fewer than three.
    """
    numbers = np.asarray(list(values), dtype=float)
    finite = np.isfinite(numbers)
    numbers = numbers[finite]
    if not len(numbers):
        return NOTHING
    mean, half, n = float(numbers.mean()), math.nan, len(numbers)
    if n < FEWEST_FOR_INTERVAL:
        return Estimate(mean, half, half, n, tuple(numbers.tolist()))
    if examples is None:
        if np.ptp(numbers) > 1e-9 * np.abs(numbers).max():
            half = float(half_widths(numbers.std(ddof=1), n, level))
    elif examples.shape[1] > 1:  # one test example says nothing of others
        variance, df = crossed(examples[finite], resolution)
        half = float(t_quantile(level, df) * math.sqrt(variance))
    return Estimate(mean, mean - half, mean + half, n)


def crossed(z: np.ndarray, resolution: float = 0.0) -> tuple[float, float]:
    """(variance, degrees of freedom) of the mean of `z` (seeds, equal examples of each), of which both are samples.

    The crossed model has components for seed, example and rest. V_seed + V_example - V_rest is an unbiased estimate of
    the variance of the mean. V_seed is the variance of the seeds' means divided by n, V_example that of the examples'
    means divided by E, V_rest that of the residuals divided by n E (Searle 1971). A bootstrap that draws seeds and
    examples independently estimates the same (Owen 2007). Degrees of freedom are Satterthwaite's.

    Args:
        resolution: variance to add to the examples' part, because a test set cannot show finer differences.
    """
    n, examples = z.shape
    seeds, means = z.mean(1), z.mean(0)  # (n,), (E,)
    rest = z - seeds[:, None] - means + z.mean()
    of_seeds = float(seeds.var(ddof=1)) / n
    of_examples = float(means.var(ddof=1)) / examples + resolution
    of_rest = float((rest**2).sum()) / ((n - 1) * (examples - 1)) / (n * examples)
    variance = max(of_seeds + of_examples - of_rest, of_seeds, of_examples)
    spread = of_seeds**2 / (n - 1) + of_examples**2 / (examples - 1) + of_rest**2 / (n - 1) / (examples - 1)
    return variance, max(variance**2 / spread if spread > 0 else n - 1.0, n - 1.0)


def curves(table: pd.DataFrame, by: Sequence[str], x: str, *, log: bool = False) -> pd.DataFrame:
    """Mean, interval over seeds and number of runs at each x of each group, for figures: columns `by`, x, mean, low,
    high, n. With fewer than three runs, the interval is NaN.

    `log` takes logarithms, so the mean is geometric. It is for positive values on a logarithmic axis.
    """
    if log:
        table = table[table["value"] > 0].assign(value=lambda rows: np.log(rows["value"]))
    grouped = table.groupby([*by, x], observed=True)["value"].agg(["mean", "std", "count"]).reset_index()
    half = half_widths(grouped["std"], grouped["count"], LEVEL)
    result = grouped.assign(low=grouped["mean"] - half, high=grouped["mean"] + half, n=grouped["count"])
    if log:
        result[["mean", "low", "high"]] = np.exp(result[["mean", "low", "high"]])
    return result[[*by, x, "mean", "low", "high", "n"]]


def of_all_runs(curve: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Those points of `curves` to which every run of their group came. A mean that loses a run on the way jumps."""
    return curve[curve["n"] == curve.groupby([*by], observed=True)["n"].transform("max")]
