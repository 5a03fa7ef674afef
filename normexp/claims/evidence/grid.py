"""The grid of runs that a claim or a bank asks for, and which of them no table has.

A grid is a table with a row for each run: setting, arm, level, overrides, seed and lr. The last three name the run in
the table of finished runs, so that what is missing is an anti-join.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from normexp.claims.evidence.rates import first_rates
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import BankCell, length_of, rate_of, value_of
from normexp.claims.spec.claim import Claim
from normexp.config.options import last_of_each

ARM = ["setting", "arm", "level"]
RUN = ["overrides", "seed", "lr"]
NO_GRID = pd.DataFrame(columns=[*ARM, *RUN])
OF_BANK = "bank:"  # in `asked_by`, before the name of a bank


def overrides_text(overrides: Iterable[str]) -> str:
    """Overrides as the text that names a run beside its seed and rate: the last word of each key, one a line."""
    return "\n".join(text for text in sorted(last_of_each(overrides)) if text != "monitor=none")


def grid_of(claim: Claim) -> pd.DataFrame:
    """The first grid of a claim: every arm, level and seed, in every setting at the rates that its bank gives.

    Raises ValueError for a drawn setting without a pilot.
    """
    parts = []
    for cell in cells_of(claim):
        if cell.draw and not cell.updates:
            raise ValueError(f"claim={claim.id}: setting={cell.name}: has no pilot yet (docs/claims.md)")
        for arm, level, overrides in arms_in(claim, cell):
            rates = rates_in(claim, cell, arm, level)
            parts.append(rows_of(cell.name, arm, level, overrides, claim.seed_range, rates))
    return pd.concat(parts, ignore_index=True)


def cells_of(claim: Claim) -> list[BankCell]:
    """The cells of a claim. A claim in a single setting has one cell, which changes nothing."""
    return list(claim.cells.values()) if claim.cells else [BankCell(name="", overrides=())]


def grid_of_bank(bank: Bank) -> pd.DataFrame:
    """The grid of a bank: every norm in each cell of its grid; the norm is the arm."""
    parts = []
    for cell, norm in itertools.product(bank.grid.values(), bank.norms):
        overrides = [*cell.overrides, f"norm={norm}"]
        rates = first_rates(cell, overrides) if cell.draw else cell.rates
        parts.append(rows_of(cell.name, norm, "", overrides_text(overrides), range(bank.seeds), rates))
    return pd.concat(parts, ignore_index=True) if parts else NO_GRID


def rows_of(
    setting: str, arm: str, level: Any, overrides: str, seeds: Iterable[int], rates: Sequence[float | None]
) -> pd.DataFrame:
    """The rows of one arm at one level in one setting."""
    rows = [(setting, arm, level, overrides, seed, rate) for seed in seeds for rate in rates]
    return pd.DataFrame(rows, columns=[*ARM, *RUN]).astype({"level": object, "lr": float})


def arms_in(claim: Claim, cell: BankCell) -> list[tuple[str, Any, str]]:
    """(arm, level, overrides) of everything that a claim compares in a setting."""
    found = []
    for arm, level in itertools.product(claim.arms, claim.levels):
        factor = claim.factor_of(level)
        length = equal_passes(cell, [*claim.fixed, *claim.arms[arm], *factor])
        overrides = [*cell.overrides, *claim.fixed_of(arm), *claim.arms[arm], *factor, *length]
        found.append((arm, level, overrides_text(overrides)))
    return found


def equal_passes(cell: BankCell, overrides: Sequence[str]) -> list[str]:
    """The length of an arm with another batch size than its drawn setting: as many passes over the data."""
    arm_batch, setting_batch = value_of("batch_size", overrides), value_of("batch_size", cell.overrides)
    if not cell.draw or not arm_batch or arm_batch == setting_batch:
        return []
    return length_of(max(1, round(cell.updates * float(setting_batch) / float(arm_batch))))


def rates_in(claim: Claim, cell: BankCell, arm: str, level: Any) -> tuple[float | None, ...]:
    """The first rates of an arm in a setting; None for the configuration's own rate."""
    if not claim.cells:
        return (None,)
    tuned, rates = claim.rate == "own", cell.rates
    if cell.draw:
        choice = claim.arms[arm] if tuned else []  # a rate that is not an arm's own is equal in all arms
        rates = first_rates(cell, [*claim.fixed, *choice, *claim.factor_of(level)])
    return rates if tuned else (rate_of(rates, claim.rate),)


def missing(grid: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a grid whose runs the table does not have."""
    return grid[~pd.MultiIndex.from_frame(grid[RUN]).isin(pd.MultiIndex.from_frame(table[RUN]))]


def runs_of(grid: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a grid with the numbers of their runs; `status` is not there where a run is missing."""
    return grid.merge(table.drop(columns=ARM, errors="ignore"), on=RUN, how="left")
