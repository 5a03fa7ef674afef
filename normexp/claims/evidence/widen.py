"""The runs that finished ones ask for: rates beyond an edge, and two more seeds where a drawn setting lies near its
margin. No other rule changes a grid after its first runs."""

from collections.abc import Sequence

import pandas as pd

from normexp.claims.evidence.grid import ARM, RUN, arms_in, rates_in, rows_of, runs_of
from normexp.claims.evidence.metric import quantity_of, with_values
from normexp.claims.evidence.rates import MOST_WIDENINGS, next_rates
from normexp.claims.evidence.settings import compared_runs, setting_of
from normexp.claims.judge.settings_count import MOST_SEEDS, is_near_margin
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim

Arm = tuple[str, object, str]  # arm, level, overrides


def widen(claim: Claim, grid: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The grid with the runs that its finished ones ask for; the grid itself where they ask for no more."""
    if not claim.cells:
        return grid
    added = []
    for name, runs in with_values(claim, runs_of(grid, table)).groupby("setting", sort=False):
        cell = claim.cells[str(name)]
        arms = arms_in(claim, cell)
        # In a drawn setting every arm has rates of its own, so one that needs others costs the others nothing.
        sharing = [[arm] for arm in arms] if cell.draw else [arms]
        more = [rows for group in sharing for rows in wider_rates(claim, cell, group, runs)]
        if not more and not runs["status"].isna().any():
            more = more_seeds(claim, cell, arms, runs)
        added += more
    if not added:
        return grid
    return pd.concat([grid, *added], ignore_index=True).drop_duplicates([*ARM, *RUN], ignore_index=True)


def wider_rates(claim: Claim, cell: BankCell, arms: Sequence[Arm], runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows that these arms, which share one grid of rates, still need: first every seed at each rate, then rates
    beyond an edge. No row while a run has no result."""
    if claim.rate != "own" or not cell.widen:
        return []
    names = [(arm, level) for arm, level, _ in arms]
    runs = runs[[pair in names for pair in zip(runs["arm"], runs["level"], strict=True)]]
    seeds, rates = sorted(set(runs["seed"])), rates_in(claim, cell, *names[0])
    for _ in range(MOST_WIDENINGS + 1):  # the first grid, then each wider one
        here = runs[runs["lr"].isin(rates)]
        if len(here) < len(rates) * len(seeds) * len(arms):
            return [rows_of(cell.name, *arm, seeds, rates) for arm in arms]
        if here["status"].isna().any():
            break
        rates = next_rates(here, cell, quantity_of(claim))
    return []


def more_seeds(claim: Claim, cell: BankCell, arms: Sequence[Arm], runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The first rates of two more seeds, where a drawn setting whose runs are finished lies near its margin."""
    seeds = range(claim.first_seed, claim.first_seed + MOST_SEEDS)
    if not claim.drawn or runs["seed"].nunique() >= MOST_SEEDS:
        return []
    if not is_near_margin(setting_of(claim, cell, compared_runs(claim, runs)), claim.comparisons):
        return []
    return [rows_of(cell.name, *arm, seeds, rates_in(claim, cell, *arm[:2])) for arm in arms]
