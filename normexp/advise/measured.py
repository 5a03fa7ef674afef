"""The finished settings of a bank from the evidence: every norm in each of them, each seed at its best rate."""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.grid import OF_BANK, grid_of_bank, runs_of
from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.evidence.settings import failed_runs
from normexp.claims.evidence.table import EVIDENCE, runs_in
from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import EARLY, BankCell


@dataclass(frozen=True, eq=False)
class Measured:
    """A finished setting at its final length, with the error on test of every norm."""

    name: str
    cell: BankCell
    setting: Setting

    @property
    def in_words(self) -> str:
        """The setting in a few words."""
        labels = self.cell.labels
        depth = f"{labels['depth']} deep" if "depth" in labels else ""
        batch_size = f"batch {labels['batch size']}" if "batch size" in labels else ""
        return ", ".join(filter(None, (labels["model"], depth, labels.get("activation"), batch_size)))


def measured(bank: Bank, evidence: Path = EVIDENCE) -> list[Measured]:
    """The settings of a bank's grid of which the evidence has every norm, in the order drawn."""
    table = runs_in(evidence)
    table = table[[f"{OF_BANK}{bank.name}" in words.split() for words in table["asked_by"]]]
    grid, cells = grid_of_bank(bank), bank.grid
    arms = grid[["setting", "arm", "level", "overrides"]].drop_duplicates()
    runs, points = runs_of(arms.merge(table[["overrides", "seed", "lr"]], on="overrides"), table), []
    for name in arms["setting"].unique():
        cell, here = cells[name], runs[runs["setting"] == name]
        if name.endswith(f"-{EARLY}") or here["arm"].nunique() < len(bank.norms):
            continue
        points.append(Measured(name, cell, _setting(cell, tuned_runs(here, "error"))))
    return points


def _setting(cell: BankCell, runs: pd.DataFrame) -> Setting:
    answers = runs["answers"].iloc[0]
    failed = failed_runs(runs, cell)
    table = runs.assign(factor="", value=1 - runs["test_accuracy"], failed=failed)
    return Setting.of_table(
        table, cell.name, measure="error", guess=1 - cell.chance,
        answer=1 / (cell.validation if math.isnan(answers) else answers), labels=cell.labels,
    )  # fmt: skip
