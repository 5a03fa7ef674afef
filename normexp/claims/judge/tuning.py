"""Tuning inside each seed: each judging seed takes its own best rate, so the interval contains the noise of tuning.

If two extra seeds chose the rates for all, the interval would lack that noise. Equal arms would then be called
different in 5 to 19% of comparisons instead of 5%.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

EDGE_SHARE = 0.2  # of the seeds; if more take an edge, the grid must be widened
MOST_WIDENINGS = 2
RATE_RULES = {
    "share of seeds at an edge above which a grid is widened": EDGE_SHARE,
    "widenings, at most": MOST_WIDENINGS,
}


class RatedRun(NamedTuple):
    """A run at one rate: `score` is the validation score of the claim's measure (higher is better), `tie` a second
    score that breaks ties, such as minus the validation loss, `value` what is read of the run. Plain values: of a
    hundred runs, tables take many times as long."""

    setting: str
    arm: str
    level: Hashable
    seed: int
    rate: float
    score: float
    tie: float = 0.0
    value: float = math.nan
    failed: bool = False

    @property
    def rank(self) -> tuple:
        """The lower, the better. A score that is no number comes last."""
        scores = (
            (math.isnan(score), 0.0 if math.isnan(score) else -score) for score in (self.score, self.tie)
        )
        return self.failed, *scores, self.rate

    @property
    def place(self) -> tuple:
        """Its place in a table. A level that is None comes last."""
        level = (True, 0) if self.level is None else (False, self.level)
        return self.setting, self.arm, *level, self.seed


def complete_runs(runs: Iterable[RatedRun]) -> list[RatedRun]:
    """The runs. Raises ValueError if one is missing or stands there twice."""
    rows = list(runs)
    settings: dict[str, list[RatedRun]] = defaultdict(list)
    for run in rows:
        settings[run.setting].append(run)
    for name, group in settings.items():
        arms, seeds, rates = ({run[part] for run in group} for part in (slice(1, 3), 3, 4))
        different, expected = {run[1:5] for run in group}, len(arms) * len(seeds) * len(rates)
        if not len(different) == len(group) == expected:
            raise ValueError(
                f"setting={name}: {len(different)} different runs of {expected}, {len(group)} rows; every arm "
                "needs each rate with each seed exactly once"
            )
    return rows


def tuned(runs: Iterable[RatedRun]) -> list[RatedRun]:
    """The run at the best rate, for every setting, arm, level and seed: the highest score of the runs that did not
    fail. The higher `tie` breaks ties, then the lower rate. If all rates failed, the run failed and its rate is nan."""
    best: dict[tuple, RatedRun] = {}
    for run in sorted(runs, key=lambda run: run.rank):
        best.setdefault(run[:4], run)
    ordered = sorted(best.values(), key=lambda run: run.place)
    return [run._replace(rate=math.nan) if run.failed else run for run in ordered]


def widened_rates(runs: Sequence[RatedRun]) -> list[float]:
    """The grid of one setting, wider if more than a fifth of the seeds of one arm take an edge.

    At each such end, the grid continues by the ratio of its last two rates. The grid is the same for all arms. It
    depends on which rate is best, never on how the arms compare. Seeds whose runs all failed take no edge.
    """
    rates = sorted({run.rate for run in runs})
    if len(rates) < 2:
        return rates
    chosen: dict[tuple, list[float]] = defaultdict(list)
    for run in tuned(runs):
        chosen[run.arm, run.level].append(run.rate)
    shares = [[taken.count(edge) / len(taken) for edge in (rates[0], rates[-1])] for taken in chosen.values()]
    low, high = (any(pair[end] > 0 for pair in shares if sum(pair) > EDGE_SHARE) for end in (0, 1))
    return [rates[0] ** 2 / rates[1]] * low + rates + [rates[-1] ** 2 / rates[-2]] * high
