"""The finished settings of a bank, as its ledger has them: every norm in each of them, each seed at its best rate."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.disk_runs import complete_cells
from normexp.claims.evidence.keep import grid_claim
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.stored import EVIDENCE, MANIFEST, StoredEvidence, ledger_of_bank
from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import EARLY, FINAL, BankCell


@dataclass(frozen=True, eq=False)
class Measured:
    """A finished setting at one length.

    Attributes:
        name: of the setting, the same at both lengths.
        at: `final` or `early`; `final` for a cell that was written by hand.
        setting: the error on test of every norm.
        runs: every finished run, at any rate.
    """

    name: str
    at: str
    cell: BankCell
    setting: Setting
    runs: pd.DataFrame

    @property
    def in_words(self) -> str:
        """The setting in a few words."""
        labels = self.cell.labels
        depth = f"{labels['depth']} deep" if "depth" in labels else ""
        batch_size = f"batch {labels['batch size']}" if "batch size" in labels else ""
        return ", ".join(filter(None, (labels["model"], depth, labels.get("activation"), batch_size)))


def measured(bank: Bank, evidence: Path = EVIDENCE) -> list[Measured]:
    """The finished settings of a bank's grid in the order drawn, final and early; none without a ledger of it. Raises
    ValueError with one line for runs that today's code would not compute."""
    claim = grid_claim(bank)
    folder = ledger_of_bank(bank, evidence)
    if not bank.drawn and not (folder / MANIFEST).exists():
        folder = evidence
    if not (folder / MANIFEST).exists():
        return []
    claim = claim if bank.drawn else complete_cells(claim)
    known, settings = Known(claim, StoredEvidence(folder), None), []
    for cell in claim.cells.values():
        rows, missing = known.cell_runs(cell, claim.seed_range)
        if missing:
            continue
        early = bool(cell.draw) and cell.name.endswith(f"-{EARLY}")
        name, at = (cell.name.removesuffix(f"-{EARLY}"), EARLY) if early else (cell.name, FINAL)
        settings.append(Measured(name, at, cell, known.setting(cell, rows), rows))
    return settings
