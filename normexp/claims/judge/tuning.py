"""Tuning inside the replicate: each judging seed takes its own best rate, so that the interval has the noise of tuning.

Rates that two seeds of their own chose for all would leave that noise out: two equal arms then differ falsely in 5 to
19% of comparisons where 5% is promised.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

CELL = ["setting", "arm", "level"]
COLUMNS = [*CELL, "rate", "seed", "score", "tie", "value", "failed"]
EDGE_SHARE = 0.2  # of the seeds; more at an edge ask for a wider grid
MOST_WIDENINGS = 2


def rate_table(rows: Sequence[dict]) -> pd.DataFrame:
    """One row a run: setting, arm, level ("" if left out), rate, seed, `score` (validation score of what the claim is
    about, higher is better), `tie` (a second score for equal ones, such as minus the validation loss; 0 if left out),
    `value` (on test) and `failed` (False if left out). ValueError where a run is missing."""
    table = pd.DataFrame(rows)
    for column, default in (("level", ""), ("tie", 0.0), ("failed", False)):
        if column not in table:
            table[column] = default
    for name, cell in table.groupby("setting", sort=False):
        runs = cell.groupby(["arm", "level", "rate", "seed"]).size()
        rates, seeds = (runs.index.get_level_values(key).nunique() for key in ("rate", "seed"))
        wanted = rates * seeds * len(runs.groupby(level=[0, 1]))
        if len(runs) != wanted or (runs > 1).any():
            raise ValueError(
                f"setting={name}: {len(runs)} different runs of {wanted}, {len(cell)} rows; every arm needs each rate "
                "with each seed exactly once"
            )
    return table[COLUMNS]


def tuned(table: pd.DataFrame) -> pd.DataFrame:
    """Of every setting, arm, level and seed the run at its best rate: the highest score of those that did not fail, at
    equal scores the higher `tie`, then the lower rate. Where all rates failed the run failed, at no rate (nan)."""
    order = table.sort_values(
        ["failed", "score", "tie", "rate"], ascending=[True, False, False, True], kind="stable"
    )
    best = order.groupby([*CELL, "seed"], sort=False).head(1).sort_values([*CELL, "seed"])
    return best.assign(rate=best["rate"].where(~best["failed"])).reset_index(drop=True)


@dataclass(frozen=True)
class Widening:
    """What the rule says of one setting's grid.

    Attributes:
        rates: the grid for all arms alike, wider where the rule asks and allows it.
        asked: at which ends: `low`, `high`.
        allowed: whether the grid has been widened fewer than two times.
        at_edge: of each arm and level, the share of its seeds that take the lowest and the highest rate.
    """

    rates: list[float]
    asked: list[str]
    allowed: bool
    at_edge: dict[str, tuple[float, float]]

    @property
    def note(self) -> str:
        if not self.asked or self.allowed:
            return ""
        return (
            f"rates at the {' and '.join(self.asked)} edge of a grid that was widened {MOST_WIDENINGS} times"
        )


def widening(table: pd.DataFrame, setting: str, widened: int = 0) -> Widening:
    """Whether the grid of a setting is to be widened: where more than a fifth of the seeds of one arm take an edge.

    A widened grid goes on by the ratio of its last two rates, at each end that was taken. It holds for all arms, and
    depends on which rate is best, never on how the arms compare. Seeds whose every run failed take no edge.
    """
    own = table[table["setting"] == setting]
    if own.empty:
        raise ValueError(
            f"setting={setting}: has no runs; the settings are {', '.join(table['setting'].unique())}"
        )
    rates = sorted(own["rate"].unique())
    if len(rates) < 2:
        return Widening(rates, [], widened < MOST_WIDENINGS, {})
    chosen = tuned(own)
    at_edge, asked = {}, set()
    for (arm, level), runs in chosen.groupby(["arm", "level"], sort=False):
        low, high = (float((runs["rate"] == edge).mean()) for edge in (rates[0], rates[-1]))
        at_edge[f"{arm} {level}".strip()] = (low, high)
        if low + high > EDGE_SHARE:
            asked |= {"low"} if low else set()
            asked |= {"high"} if high else set()
    allowed = widened < MOST_WIDENINGS
    wider = (
        [rates[0] ** 2 / rates[1]] * ("low" in asked)
        + rates
        + [rates[-1] ** 2 / rates[-2]] * ("high" in asked)
    )
    return Widening(wider if allowed else rates, sorted(asked), allowed, at_edge)


def over_rates(table: pd.DataFrame) -> pd.DataFrame:
    """What a figure of the measure over the rate draws: of each setting, arm, level and rate the mean value of the runs
    that did not fail, their deviation, how many they are, and how many failed."""
    trained = table.assign(value=table["value"].where(~table["failed"], np.nan))
    groups = trained.groupby([*CELL, "rate"], sort=False)
    return groups.agg(
        mean=("value", "mean"), deviation=("value", "std"), runs=("value", "count"), failed=("failed", "sum")
    ).reset_index()
