"""Whether runs came after the row of the registry that they belong to, and how that is proven.

Two witnesses. A run says when it started, which anybody could write. It also says at which commit it was computed. A
commit's name is a hash over all of its files: a row that stands in the registry of that commit was there before the
commit, and the commit before the run. Only a run of a clean checkout names its code.

Runs of the bank have a row of their own, which fixed what is trained before anybody asked what it shows. A claim that
was registered later is told how many of them had started by then.
"""

import functools
import subprocess
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from normexp.claims.spec.registry import REGISTRY, Row, parse_registry

RowsAt = Callable[[str], "list[Row] | None"]  # a commit -> its registry; None where the commit is not known


def not_after(row: Row, runs: Iterable[Mapping[str, Any]], rows_at: RowsAt) -> list[str]:
    """What speaks against a verdict made of these runs, a line a run, at most one for each; empty where nothing does.

    Args:
        runs: each with `run` (its name), `finished` (ISO 8601), `seconds`, `commit`, and `dirty` where it was.
    """
    found = []
    for run in runs:
        if why := _why_not(row, run, rows_at):
            found.append(f"{run['run']}: {why}")
    return found


def started(run: Mapping[str, Any]) -> datetime:
    """When a run says that it started."""
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
        return f"names commit {run['commit'][:12]}, which this repository does not have"
    if row.hash not in {known.hash for known in rows}:
        return f"names commit {run['commit'][:12]}, whose registry does not have row {row.number}"
    return ""


def registry_of(repository: Path) -> RowsAt:
    """Reads the registry of any commit of a repository with git."""

    @functools.cache
    def rows_at(commit: str) -> list[Row] | None:
        def git(*arguments: str) -> subprocess.CompletedProcess:
            return subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True)

        if git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
            return None
        shown = git("show", f"{commit}:{REGISTRY.as_posix()}")
        return (
            parse_registry(shown.stdout, f"{commit[:12]}:{REGISTRY.as_posix()}")
            if not shown.returncode
            else []
        )

    return rows_at
