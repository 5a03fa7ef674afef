"""The learning rates of a setting: the run of each arm and seed at its own best rate, and when the grid must grow.

If more than a fifth of the seeds of an arm take the lowest or the highest rate, the grid of all arms continues at that
end by one rate. This happens twice at most, and every registered protocol holds the rule. It sees which rate is best,
and never how the arms compare.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import pandas as pd

from normexp.claims.evidence.pilot_rules import neighbor
from normexp.claims.judge.tuning import MOST_WIDENINGS, RatedRun, complete_runs, tuned, widened_rates
from normexp.claims.spec.bank import Bank, BankCell, value_of

Grid = tuple[float, ...]
# Scores that may choose a rate (higher is better), each with a second score that breaks ties.
SCORES: dict[str, Callable[[pd.DataFrame], tuple[pd.Series, pd.Series]]] = {
    "error": lambda runs: (runs["val_accuracy"], -runs["val_loss"]),
    "loss": lambda runs: (-runs["val_loss"], runs["val_accuracy"]),
    "steps": lambda runs: (-runs["value"], runs["val_accuracy"]),
}
SCORES["fit"] = SCORES["loss"]
SCORES["failed"] = SCORES["value"] = SCORES["error"]  # a failed run counts if it was the best of its seed


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
