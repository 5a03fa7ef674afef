"""The finished settings of a bank, and how far each is from a setting that is described."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from normexp.claims.evidence.grid import OF_BANK, grid_of_bank, runs_of
from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.evidence.settings import answer_of, failed_runs
from normexp.claims.evidence.table import EVIDENCE, runs_in
from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import EARLY

NUMBERS = ("updates", "batch size", "depth", "width", "examples")
WORDS = ("data", "model", "activation", "initialization", "optimizer", "place of the norm")
ANOTHER = 2.0  # doublings that another word counts as; a choice


def measured(bank: Bank, evidence: Path = EVIDENCE) -> list[Setting]:
    """The settings of a bank's grid, at their final length, of which the evidence has every norm: their errors on test,
    in the order drawn."""
    table = runs_in(evidence)
    table = table[[f"{OF_BANK}{bank.name}" in asked_by.split() for asked_by in table["asked_by"]]]
    grid, cells = grid_of_bank(bank), bank.grid
    arms = grid[["setting", "arm", "level", "overrides"]].drop_duplicates()
    runs, found = runs_of(arms.merge(table[["overrides", "seed", "lr"]], on="overrides"), table), []
    for name in arms["setting"].unique():
        cell, here = cells[name], runs[runs["setting"] == name]
        if name.endswith(f"-{EARLY}") or here["arm"].nunique() < len(bank.norms):
            continue
        best = tuned_runs(here, "error")
        results = best.assign(factor="", value=1 - best["test_accuracy"], failed=failed_runs(best, cell))
        guess, answer = 1 - cell.chance, answer_of(cell, best)
        found.append(
            Setting.of_table(results, name, quantity="error", guess=guess, answer=answer, labels=cell.labels)
        )
    return found


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> dict[str, float]:
    """Label -> by how much a setting differs from another in it: doublings of a number, 2 for another word. Labels that
    only one of them has are no difference."""
    shared = here.keys() & there.keys()
    found = {key: abs(math.log2(float(there[key]) / float(here[key]))) for key in NUMBERS if key in shared}
    found |= {key: ANOTHER * (here[key] != there[key]) for key in WORDS if key in shared}
    return {key: size for key, size in found.items() if size}


def nearest(settings: Sequence[Setting], labels: Mapping[str, str], most: int) -> list[tuple[float, Setting]]:
    """(distance, setting) of the nearest settings, those with the same kind of model first. The distance is the sum of
    the differences."""
    found = [(sum(difference(labels, point.labels).values()), point) for point in settings]
    return sorted(found, key=lambda row: (row[1].labels["model"] != labels["model"], row[0]))[:most]


def outside(settings: Sequence[Setting], labels: Mapping[str, str]) -> list[str]:
    """The labels of a setting that lie outside of what was measured, on networks of its kind if there are any."""
    all_labels = [point.labels for point in settings]
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
