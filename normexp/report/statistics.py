"""Means over seeds with intervals, and differences of paired seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from normexp.runs.intervals import half_widths

LEVEL = 0.95
# The t interval of two values is 18 standard deviations wide, and a figure would show nothing else.
FEWEST_DRAWN = 3


class Estimate(NamedTuple):
    """A mean with its interval. `low` and `high` are NaN if there are fewer than two values."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Mean and t interval of the values that are numbers."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(numbers.mean())
    if len(numbers) == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    half = float(half_widths(numbers.std(ddof=1), len(numbers), level))
    return Estimate(mean, mean - half, mean + half, len(numbers))


def paired_difference(first: Mapping[Any, float], second: Mapping[Any, float]) -> Estimate:
    """first - second over their common keys (seeds). Equal seeds have equal initial weights and batches, so their
    common noise cancels."""
    return estimate([first[key] - second[key] for key in first if key in second])


def clear_best(arms: Mapping[str, Mapping[Any, float]]) -> str | None:
    """The arm with the highest mean, if its paired difference to every other arm excludes 0; otherwise None."""
    means = {name: estimate(list(values.values())).mean for name, values in arms.items() if values}
    if len(means) < 2:
        return None
    best = max(means, key=means.__getitem__)
    others = [name for name in means if name != best]
    clear = all(paired_difference(arms[best], arms[name]).low > 0 for name in others)
    return best if clear else None


def curves(table: pd.DataFrame, by: Sequence[str], x: str, *, log: bool = False) -> pd.DataFrame:
    """Mean, interval and number of runs at each x of each group, for figures: columns `by`, x, mean, low, high, n. With
    fewer than three runs, the interval is NaN.

    `log` takes logarithms, so the mean is geometric. It is for positive values on a logarithmic axis.
    """
    if log:
        table = table[table["value"] > 0].assign(value=lambda rows: np.log(rows["value"]))
    grouped = table.groupby([*by, x], observed=True)["value"].agg(["mean", "std", "count"]).reset_index()
    half = half_widths(grouped["std"], grouped["count"], LEVEL)
    half = np.where(grouped["count"] >= FEWEST_DRAWN, half, np.nan)
    found = grouped.assign(low=grouped["mean"] - half, high=grouped["mean"] + half, n=grouped["count"])
    if log:
        found[["mean", "low", "high"]] = np.exp(found[["mean", "low", "high"]])
    return found[[*by, x, "mean", "low", "high", "n"]]
