"""The runs that a claim over settings needs in a cell: its own, and those of the bank, on the widened grid."""

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from normexp.claims.evidence.chosen_runs import measure_of, runs_at
from normexp.claims.evidence.wanted import Wanted
from normexp.claims.evidence.widened_grid import Grid, grids
from normexp.claims.spec.bank import Bank, BankCell
from normexp.claims.spec.claim import Claim

RUN = ["norm", "level", "seed", "lr"]


@dataclass(frozen=True, eq=False)
class ClaimCell:
    """A claim over settings in one of its cells.

    Attributes:
        ledger: rows of the bank. Those of other cells are left out.
    """

    claim: Claim
    cell: BankCell
    bank: Bank
    ledger: pd.DataFrame

    @cached_property
    def in_bank(self) -> pd.DataFrame:
        """The rows of the bank in this cell."""
        return self.ledger[self.ledger["cell"] == self.cell.name]

    def wanted(self, rates: Grid = ()) -> list[Wanted]:
        """Runs of every arm, level, seed and rate, without those that the bank trains: at the rates of the cell, and at
        wider ones that its rows have.

        Args:
            rates: the grid if each seed takes its own best rate; by default that of the cell.
        """
        shared = bank_arms(self.claim, self.bank.norms) if self.cell.name in self.bank.cells else {}
        of_bank = {*self.cell.rates, *self.in_bank["lr"]}
        asked = (rates or self.cell.rates) if self.claim.rate == "own" else (self.cell.rate(self.claim.rate),)
        return [
            Wanted(arm, level, seed, rate)
            for arm, level, seed in self._each_seed()
            for rate in asked
            if arm not in shared or seed >= self.bank.seeds or rate not in of_bank
        ]

    def known(self, own: pd.DataFrame) -> pd.DataFrame:
        """The finished runs at any rate, each once and named by its arm. `own`: rows of the claim's own runs."""
        parts = [own[own["cell"] == self.cell.name]]
        arms = bank_arms(self.claim, self.bank.norms) if len(self.in_bank) else {}
        for arm, norm in arms.items():
            runs = self.in_bank[self.in_bank["norm"] == norm]
            parts.append(runs.assign(norm=arm, level="", value=runs["train_loss"]))
        kept = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
        if kept.empty:
            return kept
        return kept[kept["seed"].isin(self.seeds)].drop_duplicates(RUN, ignore_index=True)

    def grid(self, known: pd.DataFrame) -> Grid:
        """The rates at which a verdict needs every run, given the finished ones."""
        if self.claim.rate != "own":
            return (self.cell.rate(self.claim.rate),)
        if known.empty:
            return self.cell.rates
        return grids(known, self.cell, self.measure, len(self._each_seed()))[-1]

    def judged(self, own: pd.DataFrame) -> pd.DataFrame:
        """The runs that a verdict compares, named by their arms: one per arm, level and seed. `own` as in `known`."""
        runs = self.known(own)
        if runs.empty:
            return runs
        return runs_at(runs[runs["lr"].isin(self.grid(runs))], self.cell, self.measure, self.claim.rate)

    @property
    def measure(self) -> str:
        """What the metric of the first arm measures; see `measure_of`."""
        return measure_of(self.claim.metric_of(next(iter(self.claim.arms))))

    def _each_seed(self) -> list[tuple]:
        """Every arm, level and seed of the claim."""
        return list(itertools.product(self.claim.arms, self.claim.levels, self.seeds))

    @property
    def seeds(self) -> list[int]:
        """The seeds that the claim needs in this cell."""
        return self.claim.seeds_in[self.cell.name]


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
