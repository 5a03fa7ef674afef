"""Whether runs came after their row of the registry, and the proof of it.

There are two kinds of proof. A run says when it started, but anyone could write that. A run also names the commit of
its code. The name of a commit is a hash over all its files. So a row in the registry of that commit is older than the
commit, and the commit is older than the run. This holds only for a run of a clean checkout.

Runs of the bank have their own row, which fixed what is trained before any question was asked. If a claim was
registered later, its verdict says how many of these runs had started by then.
"""

import functools
import subprocess
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from normexp.claims.spec.registry import REGISTRY, Row, parse_registry

# A commit -> its registry; None for a commit that is not in the history.
RowsAt = Callable[[str], "list[Row] | None"]


def not_after(row: Row, runs: Iterable[Mapping[str, Any]], rows_at: RowsAt) -> list[str]:
    """Objections to a verdict from these runs, at most one line per run; empty if there are none.

    Args:
        runs: each with `run` (its name), `finished` (ISO 8601), `seconds`, `commit`, and `dirty` if it was.
    """
    found = []
    for run in runs:
        if why := _why_not(row, run, rows_at):
            found.append(f"{run['run']}: {why}")
    return found


def started(run: Mapping[str, Any]) -> datetime:
    """The time at which a run started, by its own record."""
    return datetime.fromisoformat(run["finished"]) - timedelta(seconds=run["seconds"])


def _why_not(row: Row, run: Mapping[str, Any], rows_at: RowsAt) -> str:
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


def registry_of(repository: Path) -> RowsAt:
    """A function that reads the registry of any commit of a repository, with git."""

    @functools.cache
    def rows_at(commit: str) -> list[Row] | None:
        def git(*arguments: str) -> subprocess.CompletedProcess:
            return subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True)

        # A clone has the history and no more. A commit left behind by a rebase lies only where it was made.
        if git("merge-base", "--is-ancestor", commit, "HEAD").returncode:
            return None
        shown = git("show", f"{commit}:{REGISTRY.as_posix()}")
        return (
            parse_registry(shown.stdout, f"{commit[:12]}:{REGISTRY.as_posix()}")
            if not shown.returncode
            else []
        )

    return rows_at
