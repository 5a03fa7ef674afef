"""Tuning inside each seed: each judging seed takes its own best rate, so the interval contains the noise of tuning.

If two extra seeds chose the rates for all, the interval would lack that noise. Equal arms would then be called
different in 5 to 19% of comparisons instead of 5%.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

CELL = ["setting", "arm", "level"]
COLUMNS = [*CELL, "rate", "seed", "score", "tie", "value", "failed"]
EDGE_SHARE = 0.2  # of the seeds; if more take an edge, the grid must be widened
MOST_WIDENINGS = 2


def rate_table(rows: Sequence[dict] | pd.DataFrame) -> pd.DataFrame:
    """One row per run: setting, arm, level ("" by default), rate, seed, `score` (validation score of the claim's
    measure, higher is better), `tie` (a second score that breaks ties, such as minus the validation loss; 0 by
    default), `value` (on test) and `failed` (False by default). Raises ValueError if a run is missing."""
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
    """The run at the best rate, for every setting, arm, level and seed: the highest score of the runs that did not
    fail. The higher `tie` breaks ties, then the lower rate. If all rates failed, the run failed and its rate is nan."""
    order = table.sort_values(
        ["failed", "score", "tie", "rate"], ascending=[True, False, False, True], kind="stable"
    )
    best = order.groupby([*CELL, "seed"], sort=False).head(1).sort_values([*CELL, "seed"])
    return best.assign(rate=best["rate"].where(~best["failed"])).reset_index(drop=True)


@dataclass(frozen=True)
class Widening:
    """The result of the widening rule for the grid of one setting.

    Attributes:
        rates: the grid for all arms, widened if the rule demands and allows it.
        asked: the ends at which the rule demands it: `low`, `high`.
        allowed: whether the grid has been widened fewer than two times.
        at_edge: for each arm and level, the share of its seeds that take the lowest and the highest rate.
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
    """Widen the grid of a setting if more than a fifth of the seeds of one arm take an edge.

    At each such end, the grid continues by the ratio of its last two rates. The grid is the same for all arms. It
    depends on which rate is best, never on how the arms compare. Seeds whose runs all failed take no edge.
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
    """The table for a figure of the measure over the rate. For each setting, arm, level and rate: the mean value of the
    runs that did not fail, their deviation, their number, and the number of failed runs."""
    trained = table.assign(value=table["value"].where(~table["failed"], np.nan))
    groups = trained.groupby([*CELL, "rate"], sort=False)
    return groups.agg(
        mean=("value", "mean"), deviation=("value", "std"), runs=("value", "count"), failed=("failed", "sum")
    ).reset_index()
