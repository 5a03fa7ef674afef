"""The learning rates of a setting: each judging seed takes its own best one, so the interval contains the noise of
tuning, and the grid grows where they lie at its edge.

If two extra seeds chose the rates for all, the interval would lack that noise. Equal arms would then be called
different in 5 to 19% of comparisons instead of 5%.

If more than a fifth of the seeds of an arm take the lowest or the highest rate, the grid of all arms continues at that
end by one rate. This happens twice at most, and every registered protocol holds the rule. It sees which rate is best,
and never how the arms compare.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from normexp.claims.evidence.pilots.rules import neighbor
from normexp.claims.spec.bank import Bank, BankCell, value_of

EDGE_SHARE = 0.2  # of the seeds; if more take an edge, the grid must be widened
MOST_WIDENINGS = 2
RATE_RULES = {
    "share of seeds at an edge above which a grid is widened": EDGE_SHARE,
    "widenings, at most": MOST_WIDENINGS,
}
Grid = tuple[float, ...]
# Scores that may choose a rate (higher is better), each with a second score that breaks ties.
SCORES: dict[str, Callable[[pd.DataFrame], tuple[pd.Series, pd.Series]]] = {
    "error": lambda runs: (runs["val_accuracy"], -runs["val_loss"]),
    "loss": lambda runs: (-runs["val_loss"], runs["val_accuracy"]),
    "steps": lambda runs: (-runs["value"], runs["val_accuracy"]),
}
SCORES["fit"] = SCORES["loss"]
SCORES["failed"] = SCORES["value"] = SCORES["error"]  # a failed run counts if it was the best of its seed


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


def runs_at(runs: pd.DataFrame, cell: BankCell, measure: str, rate: str) -> pd.DataFrame:
    """One run of a cell per norm, level and seed: at its `own` best rate, or at the `lowest`, `middle` or `highest` of
    the grid."""
    if cell.draw and rate != "own":  # each arm was trained at that rate alone
        return runs
    return tuned_runs(runs, measure) if rate == "own" else runs[runs["lr"] == cell.rate(rate)]


def tuned_runs(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The row of each norm, level and seed at its best rate, by its own validation score of `measure`. If every rate
    failed, the first row."""
    return runs.iloc[[int(run.value) for run in tuned(rated(runs, measure, by_arm=True))]]


def rated(runs: pd.DataFrame, measure: str, *, by_arm: bool = False) -> list[RatedRun]:
    """What the choice of a rate reads. `value` is the position of each run. `by_arm`: the grids of arms may differ."""
    cells, norms = runs["cell"].tolist(), runs["norm"].tolist()
    levels = runs["level"].tolist() if "level" in runs else [""] * len(runs)
    arms = [f"{cell} {norm} {level}" for cell, norm, level in zip(cells, norms, levels, strict=True)]
    scores = (column.to_numpy(float).tolist() for column in SCORES[measure](runs))
    rest = (range(len(runs)), (runs["status"] != "completed").tolist())
    columns = (norms, levels, runs["seed"].tolist(), runs["lr"].tolist(), *scores, *rest)
    return complete_runs(map(RatedRun, arms if by_arm else cells, *columns))


def grids(runs: pd.DataFrame, cell: BankCell, measure: str, each: int) -> list[Grid]:
    """The grid of a cell, and the expanded ones that its finished runs ask for. The last one is the grid to judge on.

    Args:
        runs: finished runs of the cell, one row each, at any rates.
        measure: its validation score chooses the rates; see `measure_of`.
        each: the number of runs at one rate: arms x levels x seeds.

    If runs of the last grid are missing, they must be trained next; then the rule is asked again.
    """
    expanded = [cell.rates]
    while len(grid_runs := runs[runs["lr"].isin(expanded[-1])]) >= each * len(expanded[-1]):
        wider = next_grid(expanded, grid_runs, cell, measure)
        if wider == expanded[-1]:
            break
        expanded.append(wider)
    return expanded


def next_grid(before: Sequence[Grid], runs: pd.DataFrame, cell: BankCell, measure: str) -> Grid:
    """The grid that the runs of the last grid ask for: the last one itself if they ask for no other, or if it has been
    expanded as often as it may be."""
    if len(before) > MOST_WIDENINGS:
        return before[-1]
    wider = tuple(float(f"{rate:g}") for rate in widened_rates(rated(runs, measure)))
    return tuple(neighbor(rate, 0) for rate in wider) if cell.draw else wider  # 0.01, not 0.009


def rates_of(cell: BankCell, overrides: Sequence[str]) -> Grid:
    """The first grid of an arm in a drawn setting: that of its norm in the pilot; for a norm that had none, that of the
    norm with whose name it begins (layernorm_detach), else the one in the middle of all. At another batch size, rates
    move with its ratio (SGD) or the root of it (AdamW), in whole steps of the grid."""
    norm = value_of("norm", overrides)
    rates = next(
        (norm_rates for name, norm_rates in cell.arm_rates.items() if f"{norm}_".startswith(f"{name}_")),
        cell.rates,
    )
    arm_batch, setting_batch = value_of("batch_size", overrides), value_of("batch_size", cell.overrides)
    if not arm_batch or arm_batch == setting_batch:
        return rates
    power = 1.0 if cell.labels.get("optimizer") == "SGD" else 0.5
    steps = round(2 * power * math.log10(float(arm_batch) / float(setting_batch)))
    return tuple(neighbor(rate, steps) for rate in rates)


def expanded_lr_grid(bank: Bank, runs: pd.DataFrame) -> Bank:
    """The grid of a bank with the rates that its finished runs ask for."""
    runs_per_rate = len(bank.norms) * bank.seeds
    cells = {
        name: dataclasses.replace(
            cell, rates=grids(runs[runs["cell"] == name], cell, "error", runs_per_rate)[-1]
        )
        for name, cell in bank.grid.cells.items()
    }
    return dataclasses.replace(bank, cells=cells)
