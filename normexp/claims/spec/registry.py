"""The registry of protocols: an append-only file. Every row holds the hash of the row before it.

A row says which protocol a subject (a claim, or the bank) has, since when, and why. To change or remove a row breaks
every later hash. So what was committed with a run can be told from what was written later.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from normexp.runs.files import alone, atomic_write

REGISTRY = Path("docs") / "evidence" / "registry.jsonl"
ALPHA = 0.05
Seeds = list[list[int]]  # ranges [first, end) of the verdict and of its contrast
WITHDRAWN, CORRECTED = (
    "withdrawn",
    "corrected",
)  # before the subject of a row that says so; it has no protocol


@dataclass(frozen=True, kw_only=True)
class Row:
    """One registration.

    Attributes:
        number: counted from 1.
        before: hash of the row before it; empty for the first.
        subject: id of a claim, followed by its budget unless that is quick (P10, P10 full), or `bank`.
        protocol: hash of the fully resolved protocol.
        reason: the reason for the protocol; for an amendment, the reason for the change.
        date: UTC, ISO 8601.
        commit: of the checkout in which it was registered; empty outside a checkout.
        amends: number of the subject's row that it replaces; None for the first.
        alpha: the alpha of its verdict: 5%; for an amendment 5%/2, for the next 5%/4.
        seeds: the seeds of its verdict. An amendment takes none that an earlier row of the subject had.
    """

    number: int
    before: str
    subject: str
    protocol: str
    reason: str
    date: str
    commit: str
    amends: int | None
    alpha: float
    seeds: Seeds

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the row as written in the file."""
        return digest(asdict(self))


def digest(content: Any) -> str:
    """SHA-256 of plain values; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_registry(path: Path) -> list[Row]:
    """All rows; none if there is no file. Raises ValueError with one line for the first row that was changed."""
    if not path.exists():
        return []
    return parse_registry(path.read_text(encoding="utf-8"), str(path))


def parse_registry(text: str, path: str) -> list[Row]:
    """The rows of a registry's text. Raises ValueError that names `path` and the row."""
    rows: list[Row] = []
    known = {field.name for field in fields(Row)}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}: row {number}: "
        try:
            node = json.loads(line)
        except json.JSONDecodeError:
            raise ValueError(f"{where}is no JSON; restore the file from git, rows are only added") from None
        if not isinstance(node, dict) or node.keys() != known:
            raise ValueError(
                f"{where}must have the keys {', '.join(sorted(known))}; restore the file from git"
            )
        rows.append(Row(**node))
        _check(rows, where)
    return rows


def _check(rows: Sequence[Row], where: str) -> None:
    """Check the last row against the rows before it."""
    row, earlier = rows[-1], rows[:-1]
    if row.number != len(rows):
        raise ValueError(f"{where}number={row.number}: must be {len(rows)}; restore the file from git")
    if row.before != (earlier[-1].hash if earlier else ""):
        raise ValueError(
            f"{where}before={row.before[:12]}: is not the hash of the row before it; restore the file"
        )
    if earlier and row.date < earlier[-1].date:
        raise ValueError(
            f"{where}date={row.date}: lies before that of the row before it; rows are only added"
        )
    own = [one for one in earlier if one.subject == row.subject]
    if row.amends != (own[-1].number if own else None):
        raise ValueError(
            f"{where}amends={row.amends}: must be {own[-1].number if own else None}, the subject's last row"
        )
    if row.alpha != alpha_of(len(own)):
        raise ValueError(
            f"{where}alpha={row.alpha}: must be {alpha_of(len(own))} after {len(own)} rows of {row.subject}"
        )
    if clash := seen(own, row.seeds):
        raise ValueError(
            f"{where}seeds={row.seeds}: row {clash.number} had some of them; an amendment takes fresh seeds"
        )


def alpha_of(amendments: int) -> float:
    """The alpha of a verdict after so many amendments. All verdicts of a claim together spend less than 10%."""
    return ALPHA / 2**amendments


def seen(rows: Sequence[Row], seeds: Seeds) -> Row | None:
    """The first of these rows that had one of the seeds."""
    for row in rows:
        if any(max(a[0], b[0]) < min(a[1], b[1]) for a in row.seeds for b in seeds):
            return row
    return None


def latest(rows: Sequence[Row], subject: str) -> Row | None:
    """The row of a subject that is valid now."""
    return next((row for row in reversed(rows) if row.subject == subject), None)


def subject_of(claim: str, budget: str) -> str:
    """The subject of a claim's rows. A larger budget has its own protocol and its own subject."""
    return claim if budget == "quick" else f"{claim} {budget}"


def register(
    path: Path, *, subject: str, protocol: str, reason: str, seeds: Seeds, commit: str, date: str = ""
) -> Row:
    """Add a row and return it. Raises ValueError, and writes nothing, for a protocol that is already valid, for one
    without a reason, and for an amendment with seen seeds."""
    if not reason.strip():
        raise ValueError("reason=: is empty; say why the protocol is as it is, or why it changed")
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path):
        rows = read_registry(path)
        own = [row for row in rows if row.subject == subject]
        if own and own[-1].protocol == protocol:
            raise ValueError(
                f"{subject}: its protocol is registered, row {own[-1].number}; nothing has to be done"
            )
        row = Row(
            number=len(rows) + 1,
            before=rows[-1].hash if rows else "",
            subject=subject,
            protocol=protocol,
            reason=" ".join(reason.split()),
            date=date or datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit,
            amends=own[-1].number if own else None,
            alpha=alpha_of(len(own)),
            seeds=seeds,
        )
        if clash := seen(own, seeds):
            first = max(end for one in own for _, end in one.seeds)
            raise ValueError(
                f"{subject}: row {clash.number} had some of its seeds; an amendment takes fresh ones, "
                f"set first_seed: {first}"
            )
        _check([*rows, row], f"{path}: ")
        before = path.read_bytes() if path.exists() else b""
        with atomic_write(path) as file:  # a row that is half written would break the file
            file.write(before + json.dumps(asdict(row), sort_keys=True).encode() + b"\n")
    return row


def notice(path: Path, kind: str, subject: str, reason: str, commit: str) -> Row:
    """Add a row that withdraws or corrects what a subject says, without a protocol or seeds."""
    rows = [row for row in read_registry(path) if row.subject == f"{kind} {subject}"]
    protocol = digest([kind, subject, reason, len(rows)])
    return register(
        path, subject=f"{kind} {subject}", protocol=protocol, reason=reason, seeds=[], commit=commit
    )


def notices(rows: Sequence[Row], subject: str) -> list[Row]:
    """The rows that withdraw or correct what a subject says, since its protocol was registered last."""
    since = own.number if (own := latest(rows, subject)) else 0
    subjects = [f"{kind} {subject}" for kind in (WITHDRAWN, CORRECTED)]
    return [row for row in rows if row.subject in subjects and row.number > since]
