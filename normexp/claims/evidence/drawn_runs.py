"""The runs that a claim's page draws, from the ledgers: all of them, and the learning curves of those compared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.claim_runs import RUN, ClaimCell, bank_arms
from normexp.claims.evidence.learning_curves import (
    bank_curves,
    mean_curves,
    own_curves,
    read_curves,
)
from normexp.claims.evidence.ledger import LEDGER, OWN_LEDGER, read_ledger, read_own_ledger
from normexp.claims.spec.bank import BANK, load_bank, load_cells
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS


def ledger_of(claim: Claim, verdict: dict[str, Any], root: Path) -> dict[str, pd.DataFrame]:
    """Setting -> the runs that its verdict rests on, the claim's own and those of the bank, named by their arms."""
    own = read_own_ledger(root / OWN_LEDGER, claim.id)
    each = {place.cell.name: place.known(own) for place in _places(claim, verdict, root)}
    return {name: runs.assign(norm=arm_names(runs)) for name, runs in each.items() if len(runs)}


def _places(claim: Claim, verdict: dict[str, Any], root: Path) -> Iterator[ClaimCell]:
    """The settings of a verdict from trained runs. Without a bank there are none."""
    configs = root / CONFIGS.name
    if claim.evidence != "training" or not (configs / BANK).exists():
        return
    bank, known = load_bank(configs / BANK), load_cells(configs)
    for name in (row["name"] for row in verdict["settings"] if row["name"] in known):
        yield ClaimCell(claim, known[name], bank, read_ledger(root / LEDGER, [name]))


def setting_names(claim: Claim, root: Path) -> dict[str, str]:
    """Setting -> its name for people: for a cell what it is, "digits, tanh MLP", with its own name if two are alike."""
    cells = load_cells(root / CONFIGS.name) if claim.evidence == "training" else {}
    what = {name: cells[name].what if name in cells else name for name in claim.settings}
    words = list(what.values())
    return {name: f"{word} ({name})" if words.count(word) > 1 else word for name, word in what.items()}


def arm_names(runs: pd.DataFrame) -> pd.Series:
    """The arm of each run, with its level where the claim has levels."""
    return (runs["norm"] + " " + runs["level"].map(level_text)).str.strip()


def level_text(level: Any) -> str:
    """A level as it is written. A table may have 2.0 for the level 2."""
    try:
        return f"{float(level):g}"
    except ValueError:
        return str(level)


def curves_of(claim: Claim, verdict: dict[str, Any], root: Path) -> dict[str, pd.DataFrame]:
    """Setting -> the mean learning curve of each arm, over the runs that the verdict compares; those that diverged are
    left out. A setting without kept curves has none."""
    own = read_own_ledger(root / OWN_LEDGER, claim.id)
    mine, found = read_curves(own_curves(root / OWN_LEDGER, claim.id)), {}
    for place in _places(claim, verdict, root):
        name = place.cell.name
        kept = read_curves(bank_curves(root / LEDGER, name))
        arms = bank_arms(claim, place.bank.norms)
        parts = [kept[kept["norm"] == norm].assign(norm=arm) for arm, norm in arms.items()]
        curves = pd.concat([mine[mine["cell"] == name], *parts], ignore_index=True)
        if curves.empty or (runs := place.judged(own)).empty:
            continue
        done = runs[runs["status"] == "completed"]
        done, curves = (table.assign(level=table["level"].map(level_text)) for table in (done, curves))
        curves = done[RUN].merge(curves.drop_duplicates([*RUN, "step"]), on=RUN)
        if len(curves):
            found[name] = mean_curves(curves.assign(arm=arm_names(curves)))
    return found
