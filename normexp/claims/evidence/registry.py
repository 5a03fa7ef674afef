"""The protocol of a claim, everything that decides its verdict, as a hash; and the registry, the file that says who
fixed which protocol when.

A protocol is what the files say as plain values, not what they resolve to: a run has its own identity, so a default
that changes makes other runs, and the grid asks for them.

The registry is a file to which rows are only added. A claim is registered if the hash of its protocol is that of its
subject's last row, and the row's date precedes its first run. An amendment takes seeds that no earlier row of its
subject had, and half of its error: 5%/2, then 5%/4. So all verdicts of a subject together spend less than 10%. That
rows came before runs is proved from git, by `scripts/audit_registry.py`. Imports no torch and composes nothing.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.rates import RATE_RULES
from normexp.claims.evidence.settings import DIFFERENT, FAILURE_RULES
from normexp.claims.judge.estimate import ALPHA
from normexp.claims.judge.settings_count import MOST_SEEDS, RULES
from normexp.claims.judge.verdict import Registered
from normexp.claims.spec.bank import SMALL, Bank
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS
from normexp.runs.files import alone, atomic_write

REGISTRY = Path("docs") / "evidence" / "registry.jsonl"
KEYS = ("subject", "protocol", "date", "reason", "seeds")
Seeds = list[list[int]]  # ranges [first, end) of the verdict
FIELDS = (
    "sentence", "evidence", "function", "metric", "factor", "options", "seeds", "first_seed", "better", "first", "rate",
    "arms", "fixed",
)  # fmt: skip


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
        "settings": {name: list(cell.overrides) for name, cell in claim.cells.items()},
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


def seeds_of(claim: Claim) -> Seeds:
    """The ranges [first, end) of seeds that the verdict may judge, with those added to settings near the margin."""
    most = MOST_SEEDS if claim.drawn and claim.evidence == "training" else 0
    return [[claim.first_seed, claim.first_seed + max(claim.seeds, most)]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One registration."""

    subject: str  # the id of a claim, followed by its bank unless that is `small` (P10, P10 drawn), or a bank
    protocol: str  # its hash
    date: str  # UTC, ISO 8601
    reason: str  # for the protocol; for an amendment, for the change
    seeds: Seeds  # of its verdict
    number: int = 0  # of the line, from 1
    alpha: float = ALPHA  # of its verdict


def read_registry(path: Path) -> list[Row]:
    """All rows; none if there is no file. Raises ValueError with one line for a row that cannot stand there."""
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        try:
            node = {key: json.loads(line)[key] for key in KEYS}
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(
                f"{path}: row {number}: must have the keys {', '.join(KEYS)}; restore the file from git"
            ) from None
        earlier = sum(row.subject == node["subject"] for row in rows)
        rows.append(Row(**node, number=number, alpha=ALPHA / 2**earlier))
    return rows


def latest(rows: Sequence[Row], subject: str) -> Row | None:
    """The row of a subject that is valid now."""
    return next((row for row in reversed(rows) if row.subject == subject), None)


def subject_of(claim: str, bank: str) -> str:
    """The subject of a claim's rows; over another bank it has another protocol and another subject."""
    return claim if bank == SMALL else f"{claim} {bank}"


def register(path: Path, *, subject: str, protocol: str, reason: str, seeds: Seeds) -> Row:
    """Add a row and return it. Raises ValueError, and writes nothing, for a protocol that is already valid, for one
    without a reason, and for an amendment with seeds that were seen."""
    if not reason.strip():
        raise ValueError("reason=: is empty; say why the protocol is as it is, or why it changed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        earlier = [row for row in read_registry(path) if row.subject == subject]
        if earlier and earlier[-1].protocol == protocol:
            raise ValueError(
                f"{subject}: its protocol is registered, row {earlier[-1].number}; nothing is to be done"
            )
        taken = {seed for row in earlier for first, end in row.seeds for seed in range(first, end)}
        if any(not taken.isdisjoint(range(first, end)) for first, end in seeds):
            raise ValueError(
                f"{subject}: seeds={seeds}: an earlier row had some; an amendment takes fresh ones, set first_seed: "
                f"{max(taken) + 1}"
            )
        date = datetime.now(UTC).isoformat(timespec="seconds")
        row = {"subject": subject, "protocol": protocol, "date": date, "seeds": seeds}
        row["reason"] = " ".join(reason.split())
        before = path.read_bytes() if path.exists() else b""
        with atomic_write(path) as file:  # a row that is half written would break the file
            file.write(before + json.dumps(row, sort_keys=True).encode() + b"\n")
    return read_registry(path)[-1]


def default_registry() -> Path:
    """The registry of the user's own work: `docs/evidence/registry.jsonl` of a checkout that has it, else
    `./registry.jsonl`."""
    return REGISTRY if REGISTRY.exists() else Path(REGISTRY.name)


def registries_of() -> list[Path]:
    """Where rows are looked for: in the user's own registry, then in that of the evidence."""
    mine, shipped = default_registry(), CONFIGS.parent / REGISTRY
    paths = [path for path in (mine, shipped) if path.exists()]
    return paths[:1] if len(paths) > 1 and mine.samefile(shipped) else paths


def registration(claim: Claim, registries: Sequence[Path] | None = None) -> tuple[Registered | None, str]:
    """What a verdict holds of the claim's row if its protocol is the registered one; else None and the reason."""
    if not claim.drawn:
        return None, "hand-picked settings make no word, so there is nothing to register"
    subject = subject_of(claim.id, claim.bank)
    for path in registries_of() if registries is None else registries:
        if row := latest(read_registry(path), subject):
            if row.protocol != protocol_of(claim):
                return None, f"the protocol is not the one of row {row.number}; register the amendment"
            return Registered(row=row.number, date=row.date, alpha=row.alpha), ""
    return None, "no row of the registry"


def before(date: str, runs: pd.DataFrame) -> pd.Series:
    """Which of these runs were started before the date of a row."""
    registered = datetime.fromisoformat(date)
    return runs["started"].map(lambda text: datetime.fromisoformat(str(text)) < registered)
