"""The finished settings of a bank, and how far each is from a setting that is described."""

import math
from collections.abc import Mapping, Sequence
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

NUMBERS = ("updates", "batch size", "depth", "width", "examples")
WORDS = ("data", "model", "activation", "initialization", "optimizer", "place of the norm")
ANOTHER = 2.0  # doublings that another word counts as; a choice


@dataclass(frozen=True, eq=False)
class Measured:
    """A finished setting at its final length, with the error on test of every norm."""

    name: str
    cell: BankCell
    setting: Setting


def measured(bank: Bank, evidence: Path = EVIDENCE) -> list[Measured]:
    """The settings of a bank's grid of which the evidence has every norm, in the order drawn."""
    table = runs_in(evidence)
    table = table[[f"{OF_BANK}{bank.name}" in asked_by.split() for asked_by in table["asked_by"]]]
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
        table, cell.name, quantity="error", guess=1 - cell.chance,
        answer=1 / (cell.validation if math.isnan(answers) else answers), labels=cell.labels,
    )  # fmt: skip


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> dict[str, float]:
    """Label -> by how much a setting differs from another in it: doublings of a number, 2 for another word. Labels that
    only one of them has are no difference."""
    shared = here.keys() & there.keys()
    found = {key: abs(math.log2(float(there[key]) / float(here[key]))) for key in NUMBERS if key in shared}
    found |= {key: ANOTHER * (here[key] != there[key]) for key in WORDS if key in shared}
    return {key: size for key, size in found.items() if size}


def nearest(
    settings: Sequence[Measured], labels: Mapping[str, str], most: int
) -> list[tuple[float, Measured]]:
    """(distance, setting) of the nearest settings, those with the same kind of model first. The distance is the sum of
    the differences."""
    found = [(sum(difference(labels, point.cell.labels).values()), point) for point in settings]
    return sorted(found, key=lambda row: (row[1].cell.labels["model"] != labels["model"], row[0]))[:most]


def outside(settings: Sequence[Measured], labels: Mapping[str, str]) -> list[str]:
    """The labels of a setting that lie outside of what was measured, on networks of its kind if there are any."""
    all_labels = [point.cell.labels for point in settings]
    alike = [row for row in all_labels if row["model"] == labels["model"]] or all_labels
    reasons = []
    for key in (key for key in (*WORDS, *NUMBERS) if key in labels and any(key in row for row in alike)):
        values = [row[key] for row in alike if key in row]
        if key in WORDS and labels[key] not in values:
            reasons.append(f"{key} {labels[key]} (measured: {', '.join(sorted(set(values)))})")
        elif key in NUMBERS:
            here, low, high = float(labels[key]), min(map(float, values)), max(map(float, values))
            if not low <= here <= high:
                reasons.append(f"{key} {here:,g} (measured: {low:,g} to {high:,g})")
    return reasons
