"""The protocol of a claim or a bank: everything that decides a verdict, as a hash. It is what the files say as plain
values, not what they resolve to: a run has its own identity, so a default that changes makes other runs, and the grid
asks for them. Imports no torch and composes nothing."""

import hashlib
import json
from typing import Any

from normexp.claims.evidence.networks import DIFFERENT
from normexp.claims.evidence.rates import RATE_RULES
from normexp.claims.evidence.settings import FAILURE_RULES
from normexp.claims.judge.settings_count import RULES
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim

FIELDS = (
    *("sentence", "evidence", "function", "metric", "factor", "options", "seeds", "first_seed", "better"),
    *("first", "rate", "arms", "fixed", "settings"),
)


def digest(content: Any) -> str:
    """SHA-256 of plain values; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def protocol_of(claim: Claim) -> str:
    """The hash of everything that decides the verdict of a claim over settings, or in one."""
    check = claim.manipulation
    content = {name: getattr(claim, name) for name in FIELDS} | {
        "claim": claim.id,
        "bank": claim.bank,
        "comparisons": [comparison.shown() for comparison in claim.comparisons],
        # None stands where a function once did.
        "manipulation": check and [check.metric, None, check.comparison.shown()],
        "cells": {name: _cell(cell) for name, cell in claim.cells.items()},
        "rules": RULES | RATE_RULES | FAILURE_RULES | DIFFERENT,
    }
    return digest(content)


def protocol_of_bank(bank: Bank) -> str:
    """The hash of a bank's grid: its settings with their lengths and rates and, if drawn, their distributions."""
    cells = {name: [cell.draw, _cell(cell)] for name, cell in bank.cells.items()}
    population = bank.population.model_dump(exclude_unset=True) if bank.population else {}
    return digest([population, bank.norms, bank.seeds, cells])


def _cell(cell: BankCell) -> list[Any]:
    """What decides the runs of a setting, beside the claim's own overrides."""
    rates = {norm: list(rates) for norm, rates in cell.arm_rates.items()}
    fixed = [] if cell.widen else ["rates are not widened"]
    return [list(cell.overrides), cell.updates, list(cell.rates), rates, *fixed]


def evidence_tag(claim: Claim) -> str:
    """The word in the column `asked_by` of the runs on which the kept verdict of the claim, as it is now, rests."""
    return f"{claim.id}:{protocol_of(claim)[:8]}"
