"""Ask for verdicts as the commands do."""

from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.conclude import conclude, registries_of
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.stored import PLACE, StoredEvidence
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import REGISTRY
from normexp.claims.verify_claims import Verdicts


def verify(claim: Claim, out: Path, keep_in: Path | None = None) -> dict[str, Any]:
    """The verdict of a claim that trains nothing, written to its folder."""
    verdict = Verdicts(out, "c", keep_in=keep_in, registries=[]).verdict(claim)
    assert isinstance(verdict, dict), verdict
    return verdict


def from_ledger(claim: Claim, evidence: StoredEvidence) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Table and verdict of a training claim from a ledger alone."""
    return conclude(claim, Known(claim, evidence, None), registries=registries_of(evidence.folder))


def over_settings(claim: Claim, root: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Table and verdict of a claim over settings; `root` holds registry and ledger."""
    if claim.evidence == "training":
        return from_ledger(claim, StoredEvidence(root / PLACE))
    paths = [path for path in [root / REGISTRY] if path.exists()]
    return conclude(claim, registries=paths)
