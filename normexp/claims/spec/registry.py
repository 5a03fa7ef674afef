"""The registry of protocols, a file to which rows are only added: who said when what would be judged.

A claim is registered if the hash of its protocol is that of its subject's last row, and the row's date precedes its
first run. An amendment takes seeds that no earlier row of its subject had, and half of its error: 5%/2, then 5%/4. So
all verdicts of a subject together spend less than 10%. That rows came before runs is proved from git, by
`scripts/audit_registry.py`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from normexp.claims.spec.bank import SMALL
from normexp.runs.files import alone, atomic_write

REGISTRY = Path("docs") / "evidence" / "registry.jsonl"
ALPHA = 0.05
KEYS = ("subject", "protocol", "date", "reason", "seeds")
Seeds = list[list[int]]  # ranges [first, end) of the verdict


@dataclass(frozen=True, kw_only=True)
class Row:
    """One registration.

    Attributes:
        subject: the id of a claim, followed by its bank unless that is `small` (P10, P10 drawn), or a bank.
        protocol: the hash of the protocol.
        date: UTC, ISO 8601.
        reason: for the protocol; for an amendment, for the change.
        seeds: of its verdict.
        number: of the line, from 1.
        alpha: of its verdict.
    """

    subject: str
    protocol: str
    date: str
    reason: str
    seeds: Seeds
    number: int = 0
    alpha: float = ALPHA


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
        had = {seed for row in earlier for first, end in row.seeds for seed in range(first, end)}
        if any(seed in had for first, end in seeds for seed in range(first, end)):
            raise ValueError(
                f"{subject}: seeds={seeds}: an earlier row had some; an amendment takes fresh ones, set first_seed: "
                f"{max(had) + 1}"
            )
        row = {
            "subject": subject,
            "protocol": protocol,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "reason": " ".join(reason.split()),
            "seeds": seeds,
        }
        before = path.read_bytes() if path.exists() else b""
        with atomic_write(path) as file:  # a row that is half written would break the file
            file.write(before + json.dumps(row, sort_keys=True).encode() + b"\n")
    return read_registry(path)[-1]


def default_registry() -> Path:
    """The registry of the user's own work: `docs/evidence/registry.jsonl` of a checkout that has it, else
    `./registry.jsonl`."""
    return REGISTRY if REGISTRY.exists() else Path(REGISTRY.name)


def before(row: Row, runs: pd.DataFrame) -> pd.Series:
    """Which of these runs were started before a row was written."""
    registered = datetime.fromisoformat(row.date)
    return runs["started"].map(lambda text: datetime.fromisoformat(str(text)) < registered)
