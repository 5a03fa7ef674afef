"""Whether a claim was registered before its runs, and the proof of it.

There are two kinds of proof. A run says when it was launched first, but anyone could write that. A run also names the
commit at its first launch. The name of a commit is a hash over all its files. So a row in the registry of that commit
is older than the commit, and the commit is older than the run. This holds only for a run of a clean checkout. Who owns
both the folder of runs and the history can forge them together; registration proves order, and no honesty.

Runs of a bank's grid have their own row, which fixed what is trained before any question was asked. If a claim was
registered later, its verdict says how many of these runs had started by then.
"""

import functools
import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.spec.bank import SMALL
from normexp.claims.spec.registry import Row, latest, parse_registry, read_registry

# A commit -> its registry; None for a commit that is not in the history.
RowsAt = Callable[[str], "list[Row] | None"]
REGISTRY = "registry.jsonl"
IN_CHECKOUT = Path("docs") / "evidence" / REGISTRY
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
    if beside.exists() and not _git(path.parent, "rev-parse", "--is-inside-work-tree"):
        return Registry(path, rows, _kept_history(rows, json.loads(beside.read_text())))
    return Registry(path, rows, history_of(path))


def outside_history(registry: Registry) -> list[Row]:
    """The rows that name a commit which the history of this checkout does not have."""
    return [row for row in registry.rows if row.commit and registry.rows_at(row.commit) is None]


def default_registry(folder: Path | None = None) -> Path:
    """The registry of the user's own work: `docs/evidence/registry.jsonl` of a checkout that has it, else
    `./registry.jsonl`."""
    here = folder or Path()
    return here / IN_CHECKOUT if (here / IN_CHECKOUT).exists() else here / REGISTRY


def runs_before_registration(
    row: Row, runs: pd.DataFrame, registry: Registry, bank: str = SMALL
) -> tuple[int, str]:
    """(how many runs of a grid had started when a claim that reads them was registered, why its registration is
    invalid). A run of a grid that did not come after the claim's row must have come after the grid's own.

    Args:
        runs: as in `not_after`, with `bank` true for runs of a grid.
        bank: whose grid they are.
    """
    each = [{str(key): value for key, value in run.items()} for run in runs.to_dict("records")]
    own = registry.latest(grid_subject(bank))
    early = [run for run in each if not_after(row, [run], registry.rows_at)]
    wrong = [
        run for run in early if not run["bank"] or own is None or not_after(own, [run], registry.rows_at)
    ]
    if wrong:
        return 0, f"{len(wrong)} of {len(each)} runs: {not_after(row, wrong[:1], registry.rows_at)[0]}"
    return sum(started(run) < datetime.fromisoformat(row.date) for run in early), ""


def not_after(row: Row, runs: Iterable[Mapping[str, Any]], rows_at: RowsAt) -> list[str]:
    """Objections to a verdict from these runs, at most one line per run; empty if there are none.

    Args:
        runs: each with `run` (its name), `finished` (ISO 8601), `seconds`, `commit`, `dirty` if it was, and `started`
            if it recorded its first launch.
    """
    found = []
    for run in runs:
        if why := _why_not(row, run, rows_at):
            found.append(f"{run['run']}: {why}")
    return found


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
    if all(known.hash != row.hash for known in rows):
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
        for name in (f"./{path.name}", *([IN_CHECKOUT.as_posix()] if path.name == REGISTRY else [])):
            if (shown := _git(folder, "show", f"{commit}:{name}")) is not None:
                return parse_registry(shown, f"{commit[:12]}:{name}")
        return []

    return rows_at


def _kept_history(rows: list[Row], commits: Mapping[str, str | None]) -> RowsAt:
    """The registry at each commit that was kept: the rows up to the last one that the commit has."""
    place = {row.hash: index + 1 for index, row in enumerate(rows)} | {"": 0}

    def rows_at(commit: str) -> list[Row] | None:
        last = commits.get(commit)
        return None if last is None else rows[: place.get(last, 0)]

    return rows_at


def kept_commits(registry: Registry, commits: Iterable[str]) -> dict[str, str | None]:
    """What `commits.json` keeps: commit -> hash of its registry's last row, "" for none, None outside the history."""
    found: dict[str, str | None] = {}
    for commit in sorted(set(commits) - {""}):
        rows = registry.rows_at(commit)
        found[commit] = None if rows is None else rows[-1].hash if rows else ""
    return found


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says there; None if it refuses or is absent."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder or Path(), capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
