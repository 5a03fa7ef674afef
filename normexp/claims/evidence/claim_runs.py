"""The runs that a claim over settings needs in a cell: its own, and those of the bank, on the widened grid."""

import itertools
from collections.abc import Collection

import pandas as pd

from normexp.claims.evidence.chosen_runs import measure_of
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.evidence.widened_grid import Grid, grids
from normexp.claims.spec.bank import Bank, BankCell
from normexp.claims.spec.claim import Claim

RUN = ["norm", "level", "seed", "lr"]


def bank_arms(claim: Claim, norms_of_bank: Collection[str]) -> dict[str, str]:
    """Arms that change only the norm, to a norm of the bank; arm -> norm."""
    if claim.fixed or claim.factor:
        return {}
    norms = {
        arm: own[0].removeprefix("norm=")
        for arm, own in claim.arms.items()
        if len(own) == 1 and own[0].startswith("norm=")
    }
    return {arm: norm for arm, norm in norms.items() if norm in norms_of_bank}


def wanted(
    claim: Claim, cell: BankCell, bank: Bank, rates: Grid = (), in_bank: Collection[float] = ()
) -> list[Wanted]:
    """Runs of every arm, level, seed and rate in a cell, without the runs of the bank.

    Args:
        rates: the grid if each seed takes its own best rate; by default that of the cell.
        in_bank: rates of the bank's runs in this cell; by default those of the cell.
    """
    shared = bank_arms(claim, bank.norms) if cell.name in bank.cells else {}
    has = set(in_bank or cell.rates)
    return [
        Wanted(arm, level, seed, rate)
        for arm, level, seed in each_seed(claim)
        for rate in ((rates or cell.rates) if claim.rate == "own" else (cell.rate(claim.rate),))
        if arm not in shared or seed >= bank.seeds or rate not in has
    ]


def each_seed(claim: Claim) -> list[tuple]:
    """Every arm, level and seed of a claim."""
    return list(itertools.product(claim.arms, claim.levels, claim.seed_range(claim.looks[-1])))


def known_runs(
    claim: Claim, cell: BankCell, bank: Bank, own: pd.DataFrame, ledger: pd.DataFrame
) -> pd.DataFrame:
    """The finished runs of a claim in a cell at any rate, each once and named by its arm.

    Args:
        own: rows of the claim's own runs.
        ledger: rows of the bank.
    """
    parts = [own[own["cell"] == cell.name]]
    of_bank = ledger[ledger["cell"] == cell.name]
    for arm, norm in bank_arms(claim, bank.norms).items() if len(of_bank) else ():
        runs = of_bank[of_bank["norm"] == norm]
        parts.append(runs.assign(norm=arm, level="", value=runs["train_loss"]))
    kept = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    if kept.empty:
        return kept
    seeds = claim.seed_range(claim.looks[-1])
    return kept[kept["seed"].isin(seeds)].drop_duplicates(RUN, ignore_index=True)


def grid(claim: Claim, cell: BankCell, runs: pd.DataFrame) -> Grid:
    """The rates at which a verdict needs every run. `runs` are those of `known_runs`."""
    if claim.rate != "own":
        return (cell.rate(claim.rate),)
    if runs.empty:
        return cell.rates
    measure = measure_of(claim.metric_of(next(iter(claim.arms))))
    return grids(runs, cell, measure, len(each_seed(claim)))[-1]
