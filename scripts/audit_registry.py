"""Prove from git that registered protocols came before their runs: `python scripts/audit_registry.py`.

A run names the commit at its first launch. The name of a commit is a hash over all its files, so a row in the registry
of that commit is older than the commit, and the commit is older than the run. The plans of docs/studies/two_questions
are older than claims with banks: their hashes are compared, and the dates of their runs.
"""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import yaml

from normexp.claims.evidence.grid import OF_BANK
from normexp.claims.evidence.registry import REGISTRY, Row, before, digest, latest, read_registry, subject_of
from normexp.claims.evidence.table import EVIDENCE, runs_in
from normexp.claims.spec.find import load_claims
from normexp.config.folder import CONFIGS

ROOT = Path(__file__).parents[1]
PLANS = ROOT / "docs" / "studies" / "two_questions"
Key = tuple[str, str]  # subject and date of a row


def rows_at(commit: str) -> set[Key] | None:
    """The rows of the registry at a commit; None for a commit that is not in this history."""
    if _git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    text = _git("show", f"{commit}:{REGISTRY.as_posix()}") or ""
    return {(row["subject"], row["date"]) for row in map(json.loads, text.splitlines())}


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def plan_mistakes(folder: Path, runs: pd.DataFrame, rows: list[Row]) -> list[str]:
    """Which plans of a folder are not what was registered, or have runs from before."""
    mistakes = []
    for path in sorted(folder.glob("*.yaml")):
        protocol = {"plan": yaml.safe_load(path.read_text())}
        if path.stem == "learned":
            protocol["predictions"] = json.loads((folder / "predictions.json").read_text())
        registered = [row for row in rows if row.subject == f"plan {path.stem}"]
        if registered[-1].protocol != digest(protocol):
            mistakes.append(f"{registered[-1].subject}: is not what was registered")
        if before(registered[0].date, runs[runs["asked_by"] == f"plan:{path.stem}"]).any():
            mistakes.append(f"{registered[0].subject}: has runs from before it was registered")
    return mistakes


def main() -> int:
    """Print what is wrong, a line each. Returns the exit status, 1 if something is."""
    runs, rows = runs_in(EVIDENCE), read_registry(EVIDENCE / REGISTRY.name)
    history = {commit: rows_at(commit) for commit in runs["commit"].unique() if commit}
    mistakes, checked = plan_mistakes(PLANS, runs, rows), 0
    for claim in load_claims(CONFIGS / "claims").values():
        row = latest(rows, subject_of(claim.id, claim.bank))
        if not claim.drawn or row is None:
            continue
        chosen = runs[
            runs["asked_by"].map(lambda asked, name=claim.id: f"{name}:" in asked and OF_BANK not in asked)
        ]
        for commit, dirty in {*zip(chosen["commit"], chosen["dirty"], strict=True)}:
            checked += 1
            if dirty or not commit:
                mistakes.append(f"{claim.id}: runs of no clean commit ({commit[:12]})")
            elif (there := history[commit]) is None:
                mistakes.append(f"{claim.id}: commit {commit[:12]} is not in this history")
            elif (row.subject, row.date) not in there:
                mistakes.append(f"{claim.id}: the registry of {commit[:12]} does not have row {row.number}")
    print(*mistakes, f"{checked} pairs of a claim and a commit, {len(mistakes)} with a mistake", sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
