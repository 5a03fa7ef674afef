"""The evidence of a claim: one row per (arm, factor, seed), and effects paired by seed."""

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from normexp.claims.judge.comparison import Comparison

COLUMNS = ["arm", "factor", "seed", "value", "censored"]


def make_table(rows: list[dict]) -> pd.DataFrame:
    """A table with the columns arm, factor, seed, value, censored. `factor` and `censored` may be omitted."""
    table = pd.DataFrame(rows)
    for column, default in (("factor", ""), ("censored", False)):
        if column not in table:
            table[column] = default
    return table[COLUMNS]


def check_complete(table: pd.DataFrame, arms: list[str], factors: list, seeds: list[int]) -> None:
    """Raise ValueError unless every (arm, factor, seed) occurs exactly once. A missing run is an error."""
    found = list(table[["arm", "factor", "seed"]].itertuples(index=False, name=None))
    wanted = [(arm, factor, seed) for arm in arms for factor in factors for seed in seeds]
    missing = [cell for cell in wanted if cell not in set(found)]
    if missing:
        arm, factor, seed = missing[0]
        raise ValueError(
            f"evidence: {len(missing)} of {len(wanted)} values are missing, the first arm={arm} factor={factor} "
            f"seed={seed}; run it, since a missing run decides nothing"
        )
    if len(found) != len(set(found)):
        raise ValueError("evidence: the same arm, factor and seed stand there twice; keep one row of each")


def bounds(table: pd.DataFrame, arm: str, better: str | None, log: bool) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of each value, as arrays (seeds, factors).

    A value that is not finite (a diverged run) is infinitely bad, in the direction opposite to `better`. A censored
    value (a target that was never reached) is known only to be larger than the recorded one.
    """
    rows = table[table["arm"] == arm].sort_values(["seed", "factor"])
    if rows.empty:
        raise ValueError(f"evidence: no value of arm={arm}; the arms are {', '.join(table['arm'].unique())}")
    shape = (rows["seed"].nunique(), -1)
    values = rows["value"].to_numpy(float).reshape(shape)  # (seeds, factors)
    censored = rows["censored"].to_numpy(bool).reshape(shape)
    diverged = ~np.isfinite(values)
    if diverged.any() and better is None:
        raise ValueError(
            f"evidence: arm={arm} has {diverged.sum()} values that are not finite and the claim does not say which "
            "direction is worse; set better: lower or better: higher"
        )
    worst = math.inf if better == "lower" else -math.inf
    lows = np.where(diverged, worst, values)
    highs = np.where(censored & ~diverged, math.inf, lows)
    if not log:
        return lows, highs
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(lows, 0)), np.log(np.maximum(highs, 0))


def given_all_trained(table: pd.DataFrame, comparison: "Comparison") -> pd.DataFrame:
    """The rows that a comparison reads, for the seeds at which all of them are numbers. A target that was never reached
    counts as the number of steps taken, so the mean is that of the truncated times."""
    arms = [comparison.arm, comparison.baseline, comparison.over]
    rows = table[table["arm"].isin(arms)]
    if comparison.at is not None:
        rows = rows[rows["factor"] == comparison.at]
    lost = rows.loc[~np.isfinite(rows["value"].to_numpy(float)), "seed"]
    return rows[~rows["seed"].isin(lost)].assign(censored=False)


def difference(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> tuple:
    """Bounds of a - b. Two diverged runs tie. If nothing is known, the bounds are infinite."""
    with np.errstate(invalid="ignore"):
        lows, highs = a[0] - b[1], a[1] - b[0]
    exact_tie = (a[0] == a[1]) & (b[0] == b[1]) & np.isinf(a[0]) & (a[0] == b[0])
    lows = np.where(exact_tie, 0.0, np.where(np.isnan(lows), -math.inf, lows))
    highs = np.where(exact_tie, 0.0, np.where(np.isnan(highs), math.inf, highs))
    return lows, highs
