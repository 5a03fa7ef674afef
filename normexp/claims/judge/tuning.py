"""Tuning inside each seed: each judging seed takes its own best rate, so the interval contains the noise of tuning.

If two extra seeds chose the rates for all, the interval would lack that noise. Equal arms would then be called
different in 5 to 19% of comparisons instead of 5%.
"""

from collections.abc import Sequence

import pandas as pd

CELL = ["setting", "arm", "level"]
COLUMNS = [*CELL, "rate", "seed", "score", "tie", "value", "failed"]
EDGE_SHARE = 0.2  # of the seeds; if more take an edge, the grid must be widened
MOST_WIDENINGS = 2
RATE_RULES = {
    "share of seeds at an edge above which a grid is widened": EDGE_SHARE,
    "widenings, at most": MOST_WIDENINGS,
}


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
        expected = rates * seeds * len(runs.groupby(level=[0, 1]))
        if len(runs) != expected or (runs > 1).any():
            raise ValueError(
                f"setting={name}: {len(runs)} different runs of {expected}, {len(cell)} rows; every arm needs each "
                "rate with each seed exactly once"
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


def widened_rates(table: pd.DataFrame, setting: str) -> list[float]:
    """The grid of a setting, wider if more than a fifth of the seeds of one arm take an edge.

    At each such end, the grid continues by the ratio of its last two rates. The grid is the same for all arms. It
    depends on which rate is best, never on how the arms compare. Seeds whose runs all failed take no edge.
    """
    setting_runs = table[table["setting"] == setting]
    if setting_runs.empty:
        raise ValueError(
            f"setting={setting}: has no runs; the settings are {', '.join(table['setting'].unique())}"
        )
    rates = sorted(setting_runs["rate"].unique())
    if len(rates) < 2:
        return rates
    chosen = tuned(setting_runs)
    edges = [
        (chosen["rate"] == edge).groupby([chosen["arm"], chosen["level"]]).mean()
        for edge in (rates[0], rates[-1])
    ]
    crowded = edges[0] + edges[1] > EDGE_SHARE
    low, high = (bool((crowded & (share > 0)).any()) for share in edges)
    return [rates[0] ** 2 / rates[1]] * low + rates + [rates[-1] ** 2 / rates[-2]] * high
