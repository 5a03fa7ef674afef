"""Ask for verdicts as the commands do."""

from pathlib import Path

import pandas as pd

from normexp.claims.conclude import conclude
from normexp.claims.evidence.registry import REGISTRY, registries_of
from normexp.claims.gather import kept
from normexp.claims.judge.verdict import Verdict
from normexp.claims.spec.claim import Claim
from normexp.claims.verify import computed, verified


def verify(claim: Claim, out: Path) -> Verdict:
    """The verdict of a claim that trains nothing, written to its folder."""
    return verified(claim, out, "c", [])


def over_settings(claim: Claim, root: Path) -> tuple[pd.DataFrame, Verdict]:
    """Table and verdict of a claim over settings; `root` holds registry and evidence."""
    if claim.evidence == "training":
        found = kept(claim, root / REGISTRY.parent)
        assert found is not None
        return conclude(found, registries_of())
    paths = [path for path in [root / REGISTRY] if path.exists()]
    return conclude(computed(claim), paths)
