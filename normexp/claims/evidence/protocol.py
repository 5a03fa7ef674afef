"""The protocol of a claim or a bank as plain values: what a row of the registry holds the hash of.

It is what the files say, not what they resolve to: a run has its own identity, so a default that changes makes other
runs, and the grid asks for them. It imports no torch and composes nothing.
"""

import hashlib
import json
from typing import Any

from normexp.claims.evidence.rates import RATE_RULES
from normexp.claims.evidence.settings import DIFFERENT, FAILURE_RULES
from normexp.claims.judge.settings_count import MOST_SEEDS, RULES
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
    return digest(
        {
            "claim": claim.id,
            "bank": claim.bank,
            **{name: getattr(claim, name) for name in FIELDS},
            "comparisons": [comparison.shown() for comparison in claim.comparisons],
            # None stands where a function once did.
            "manipulation": check and [check.metric, None, check.comparison.shown()],
            "cells": {name: _cell(cell) for name, cell in claim.cells.items()},
            "rules": RULES | RATE_RULES | FAILURE_RULES | DIFFERENT,
        }
    )


def protocol_of_bank(bank: Bank) -> str:
    """The hash of a bank's grid: its settings with their lengths and rates and, if drawn, their distributions."""
    cells = {name: [cell.draw, _cell(cell)] for name, cell in bank.cells.items()}
    population = bank.population.model_dump(exclude_unset=True) if bank.population else {}
    return digest([population, bank.norms, bank.seeds, cells])


def _cell(cell: BankCell) -> list[Any]:
    """What decides the runs of a setting, beside the claim's own overrides."""
    rates = {norm: list(rates) for norm, rates in cell.arm_rates.items()}
    return [list(cell.overrides), cell.updates, list(cell.rates), rates]


def seeds_of(claim: Claim) -> list[list[int]]:
    """The ranges [first, end) of seeds that the verdict may judge, with those added to settings near the margin."""
    first, last = claim.seed_range.start, claim.seed_range.stop
    if claim.drawn and claim.evidence == "training":
        last = max(last, first + MOST_SEEDS)
    return [[first, last]]


def asked_of(claim: Claim) -> str:
    """The word in the column `asked_by` of the runs on which the kept verdict of the claim, as it is now, rests."""
    return f"{claim.id}:{protocol_of(claim)[:8]}"
