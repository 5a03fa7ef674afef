"""The registry of protocols, an append-only file, and whether a claim was registered before its runs.

A row says which protocol a subject (a claim, or the bank) has, since when, and why. Every row holds the hash of the row
before it, so to change or remove a row breaks every later hash.

There are two kinds of proof that a row came first. A run says when it was launched first, but anyone could write that.
A run also names the commit at its first launch. The name of a commit is a hash over all its files. So a row in the
registry of that commit is older than the commit, and the commit is older than the run. This holds only for a run of a
clean checkout. Who owns both the folder of runs and the history can forge them together; registration proves order, and
no honesty.

Runs of a bank's grid have their own row, which fixed what is trained before any question was asked. If a claim was
registered later, its verdict says how many of these runs had started by then.
"""

import functools
import hashlib
import json
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.spec.bank import SMALL
from normexp.runs.files import alone, atomic_write

REGISTRY = Path("docs") / "evidence" / "registry.jsonl"
ALPHA = 0.05
Seeds = list[list[int]]  # ranges [first, end) of the verdict and of its contrast
# Before the subject of a row that says so; it has no protocol.
WITHDRAWN, CORRECTED = "withdrawn", "corrected"


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

    @property
    def file(self) -> str:
        """The file of its protocol, below the folder of the registry."""
        return f"protocols/{self.subject.replace(' ', '-')}-{self.protocol[:12]}.json"


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
    keys = {field.name for field in fields(Row)}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}: row {number}: "
        try:
            node = json.loads(line)
        except json.JSONDecodeError:
            raise ValueError(f"{where}is no JSON; restore the file from git, rows are only added") from None
        if not isinstance(node, dict) or node.keys() != keys:
            raise ValueError(
                f"{where}must have the keys {', '.join(sorted(keys))}; restore the file from git"
            )
        rows.append(Row(**node))
        _check(rows, where)
    return rows


def _check(rows: Sequence[Row], where: str) -> None:
    """Check the last row against the rows before it."""
    row, earlier = rows[-1], rows[:-1]
    subject_rows = [earlier_row for earlier_row in earlier if earlier_row.subject == row.subject]
    expected = _behind(earlier, subject_rows)
    words = {
        "number": f"must be {len(rows)}; restore the file from git",
        "before": "is not the hash of the row before it; restore the file",
        "amends": f"must be {expected['amends']}, the subject's last row",
        "alpha": f"must be {expected['alpha']} after {len(subject_rows)} rows of {row.subject}",
    }
    for key, value in expected.items():
        if getattr(row, key) != value:
            raise ValueError(f"{where}{key}={getattr(row, key)}: {words[key]}")
    if earlier and row.date < earlier[-1].date:
        raise ValueError(
            f"{where}date={row.date}: lies before that of the row before it; rows are only added"
        )
    if clash := seen(subject_rows, row.seeds):
        raise ValueError(
            f"{where}seeds={row.seeds}: row {clash.number} had some of them; an amendment takes fresh seeds"
        )


def _behind(rows: Sequence[Row], subject_rows: Sequence[Row]) -> dict[str, Any]:
    """What a row has from the rows before it, and from those of its subject among them."""
    return {
        "number": len(rows) + 1,
        "before": rows[-1].hash if rows else "",
        "amends": subject_rows[-1].number if subject_rows else None,
        "alpha": alpha_of(len(subject_rows)),
    }


def alpha_of(amendments: int) -> float:
    """The alpha of a verdict after so many amendments. All verdicts of a claim together spend less than 10%."""
    return ALPHA / 2**amendments


def seen(rows: Sequence[Row], seeds: Seeds) -> Row | None:
    """The first of these rows that had one of the seeds."""
    had = {seed for first, end in seeds for seed in range(first, end)}
    return next((row for row in rows if any(had & {*range(*bounds)} for bounds in row.seeds)), None)


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
        subject_rows = [row for row in rows if row.subject == subject]
        if subject_rows and subject_rows[-1].protocol == protocol:
            raise ValueError(
                f"{subject}: its protocol is registered, row {subject_rows[-1].number}; nothing has to be "
                "done"
            )
        row = Row(
            **_behind(rows, subject_rows),
            subject=subject,
            protocol=protocol,
            reason=" ".join(reason.split()),
            date=date or datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit,
            seeds=seeds,
        )
        if clash := seen(subject_rows, seeds):
            first = max(end for subject_row in subject_rows for _, end in subject_row.seeds)
            remedy = {
                "population": f"set seed: {first} in its length",
                "bank": "give the bank another name",
            }.get(subject.partition(" ")[0], f"set first_seed: {first}")
            raise ValueError(
                f"{subject}: row {clash.number} had some of its seeds; an amendment takes fresh ones, {remedy}"
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
    since = registered.number if (registered := latest(rows, subject)) else 0
    subjects = [f"{kind} {subject}" for kind in (WITHDRAWN, CORRECTED)]
    return [row for row in rows if row.subject in subjects and row.number > since]


# A commit -> its registry; None for a commit that is not in the history.
RowsAt = Callable[[str], "list[Row] | None"]
COMMITS = "commits.json"  # beside a registry without its history: commit -> hash of the last row that it has
UNKNOWN = "unknown"  # the first launch of a run that resumed from a checkpoint of an older version
GRID = "bank"  # subject of the rows of a bank's grid


def grid_subject(bank: str) -> str:
    """The subject of the rows of this bank's grid."""
    return GRID if bank == SMALL else f"{GRID} {bank}"


def population_subject(bank: str) -> str:
    """The subject of the row of a drawn bank's distributions and rules."""
    return f"population {bank}"


@dataclass(frozen=True)
class Registry:
    """A registry and what its history says."""

    path: Path
    rows: list[Row]
    rows_at: RowsAt

    def latest(self, subject: str) -> Row | None:
        return latest(self.rows, subject)


def open_registry(path: Path) -> Registry:
    """Read a registry, with the history of its git repository, or with the commits kept beside it where there is none.
    Raises ValueError for the first row that was changed."""
    rows, beside = read_registry(path), path.with_name(COMMITS)
    if not beside.exists() or _git(path.parent, "rev-parse", "--is-inside-work-tree"):
        return Registry(path, rows, history_of(path))
    # At each commit that was kept the rows up to the last one that it has.
    place = {row.hash: number for number, row in enumerate(rows, 1)}
    last = json.loads(beside.read_text())
    rows_at_commit = {commit: rows[: place.get(last_hash, 0)] for commit, last_hash in last.items()}
    return Registry(path, rows, rows_at_commit.get)


def outside_history(registry: Registry) -> list[Row]:
    """The rows that name a commit which the history of this checkout does not have."""
    return [row for row in registry.rows if row.commit and registry.rows_at(row.commit) is None]


def default_registry() -> Path:
    """The registry of the user's own work: `docs/evidence/registry.jsonl` of a checkout that has it, else
    `./registry.jsonl`."""
    return REGISTRY if REGISTRY.exists() else Path(REGISTRY.name)


def runs_before_registration(
    row: Row, runs: pd.DataFrame, registry: Registry, bank: str = SMALL
) -> tuple[int, str]:
    """(how many runs of a grid had started when a claim that reads them was registered, why its registration is
    invalid). A run of a grid that did not come after the claim's row must have come after the grid's own.

    Args:
        runs: as in `not_after`, with `bank` true for runs of a grid.
        bank: whose grid they are.
    """
    run_records: list[Any] = runs.to_dict("records")
    grid_row = registry.latest(grid_subject(bank))
    early = [run for run in run_records if _why_not(row, run, registry.rows_at)]
    wrong = [
        run
        for run in early
        if not run["bank"] or grid_row is None or _why_not(grid_row, run, registry.rows_at)
    ]
    if wrong:
        return 0, f"{len(wrong)} of {len(run_records)} runs: {not_after(row, wrong[:1], registry.rows_at)[0]}"
    return sum(started(run) < datetime.fromisoformat(row.date) for run in early), ""


def not_after(row: Row, runs: Iterable[Mapping[str, Any]], rows_at: RowsAt) -> list[str]:
    """Objections to a verdict from these runs, at most one line per run; empty if there are none.

    Args:
        runs: each with `run` (its name), `finished` (ISO 8601), `seconds`, `commit`, `dirty` if it was, and `started`
            if it recorded its first launch.
    """
    return [f"{run['run']}: {why}" for run in runs if (why := _why_not(row, run, rows_at))]


def started(run: Mapping[str, Any]) -> datetime:
    """The time of a run's first launch, by its own record. An older run recorded its end and its training seconds."""
    first = run.get("started")
    if isinstance(first, str) and first:
        return datetime.fromisoformat(first)
    return datetime.fromisoformat(run["finished"]) - timedelta(seconds=run["seconds"])


def _why_not(row: Row, run: Mapping[str, Any], rows_at: RowsAt) -> str:
    if run.get("started") == UNKNOWN:
        return "does not say when it was launched first, since it resumed from an older version's checkpoint"
    if started(run) < datetime.fromisoformat(row.date):
        return (
            f"started {started(run):%Y-%m-%d %H:%M:%S}, before row {row.number} was registered ({row.date})"
        )
    if not run.get("commit"):
        return "names no commit; runs of evidence come from a clean checkout"
    if run.get("dirty"):
        return f"came from a changed checkout of {run['commit'][:12]}; runs of evidence come from a clean one"
    rows = rows_at(run["commit"])
    if rows is None:
        return f"names commit {run['commit'][:12]}, which is not in the history of this checkout"
    if all(registered.hash != row.hash for registered in rows):
        return f"names commit {run['commit'][:12]}, whose registry does not have row {row.number}"
    return ""


def history_of(path: Path) -> RowsAt:
    """A function that reads a registry at any commit of its git repository."""

    @functools.cache
    def rows_at(commit: str) -> list[Row] | None:
        # A clone has the history and no more. A commit left behind by a rebase lies only where it was made.
        folder = path.parent
        if _git(folder, "merge-base", "--is-ancestor", commit, "HEAD") is None:
            return None
        for name in (f"./{path.name}", *[REGISTRY.as_posix()] * (path.name == REGISTRY.name)):
            if (shown := _git(folder, "show", f"{commit}:{name}")) is not None:
                return parse_registry(shown, f"{commit[:12]}:{name}")
        return []

    return rows_at


def kept_commits(registry: Registry, commits: Iterable[str]) -> dict[str, str]:
    """What `commits.json` keeps: commit of the history -> hash of its registry's last row, "" for none."""
    rows_at_commit = ((commit, registry.rows_at(commit)) for commit in sorted(set(commits) - {""}))
    return {commit: rows[-1].hash if rows else "" for commit, rows in rows_at_commit if rows is not None}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says there; None if it refuses or is absent."""
    words = ["git", *arguments]
    try:
        return subprocess.run(words, cwd=folder or Path(), capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
