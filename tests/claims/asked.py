"""Ask for verdicts as the commands do."""

from pathlib import Path

import pandas as pd

from normexp.claims.conclude import of_networks, of_runs
from normexp.claims.evidence.initial import initial_table
from normexp.claims.evidence.registry import REGISTRY, registries_of
from normexp.claims.evidence.table import kept_grid, read, runs_in
from normexp.claims.judge.verdict import Verdict
from normexp.claims.spec.claim import Claim
from normexp.claims.verify import verified


def verify(claim: Claim, out: Path) -> Verdict:
    """The verdict of a claim that trains nothing, written to its folder."""
    return verified(claim, out, "c", [])


def over_settings(claim: Claim, root: Path) -> tuple[pd.DataFrame, Verdict]:
    """Table and verdict of a claim over settings; `root` holds registry and evidence."""
    if claim.evidence == "training":
        folder = root / REGISTRY.parent
        grid = kept_grid(claim, runs_in(folder))
        return of_runs(claim, grid, read(folder, grid, claim=claim.id), registries_of())
    paths = [path for path in [root / REGISTRY] if path.exists()]
    return of_networks(claim, initial_table(claim), paths)
