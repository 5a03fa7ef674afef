"""The learning rates of a cell by the widening rule, which every registered protocol holds.

If more than a fifth of the seeds of an arm take the lowest or the highest rate, the grid of all arms continues at that
end by one rate. This happens twice at most. The rule sees which rate is best, and never how the arms compare.
"""

import dataclasses

import pandas as pd

from normexp.claims.evidence.chosen_runs import scored
from normexp.claims.judge.tuning import MOST_WIDENINGS, widened_rates
from normexp.claims.spec.bank import Bank, BankCell

Grid = tuple[float, ...]


def grids(runs: pd.DataFrame, cell: BankCell, measure: str, each: int) -> list[Grid]:
    """The grid of a cell, and the wider ones that its finished runs ask for. The last one is the grid to judge on.

    Args:
        runs: finished runs of the cell, one row each, at any rates.
        measure: its validation score chooses the rates; see `measure_of`.
        each: the number of runs at one rate: arms x levels x seeds.

    If runs of the last grid are missing, they must be trained next; then the rule is asked again.
    """
    found = [cell.rates]
    for _ in range(MOST_WIDENINGS):
        own = runs[runs["lr"].isin(found[-1])]
        if len(own) < each * len(found[-1]):
            break
        asked = widened_rates(scored(own, measure), cell.name)
        wider = tuple(map(_short, asked))
        if wider == found[-1]:
            break
        found.append(wider)
    return found


def widened_bank(bank: Bank, runs: pd.DataFrame) -> Bank:
    """The bank with the grids that its finished runs ask for."""
    each = len(bank.norms) * bank.seeds
    cells = {
        name: dataclasses.replace(cell, rates=grids(runs[runs["cell"] == name], cell, "error", each)[-1])
        for name, cell in bank.cells.items()
    }
    return dataclasses.replace(bank, cells=cells)


def widest_grid(rates: Grid) -> Grid:
    """All rates that the rule could ask for."""
    low, high = rates[0] / rates[1], rates[-1] / rates[-2]
    steps = range(1, MOST_WIDENINGS + 1)
    below = [_short(rates[0] * low**step) for step in reversed(steps)]
    return (*below, *rates, *(_short(rates[-1] * high**step) for step in steps))


def _short(rate: float) -> float:
    """The rate as command lines write it."""
    return float(f"{rate:g}")
