"""Judge every verdict again from the ledger, without training or building a network. It imports no torch."""

from pathlib import Path
from typing import Any

from normexp.claims.conclude import conclude, from_ledger, noticed, registries_of
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.stored import COSTS, PLACE, StoredEvidence
from normexp.claims.judge import judge
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS
from normexp.config.process import command


def judge_all_again(claims: dict[str, Claim], root: Path = CONFIGS.parent) -> dict[str, dict[str, Any]]:
    """The verdict of every claim of which the ledger has something, by id. Raises ValueError as `judge_again` does."""
    found = {name: judge_again(claim, root) for name, claim in claims.items() if claim.evidence != "none"}
    return {name: verdict for name, verdict in found.items() if verdict is not None}


def judge_again(claim: Claim, root: Path = CONFIGS.parent) -> dict[str, Any] | None:
    """The verdict of one claim; None if nothing of it is in the ledger.

    Raises ValueError with one line for files that are not those of the manifest, and for evidence with a gap.
    """
    evidence = StoredEvidence(root / PLACE)
    if claim.settings and claim.evidence == "training":
        known = Known(claim, evidence, None)
        has = known.is_finished if claim.drawn else lambda cell: len(evidence.rows(claim, cell))
        if not any(map(has, claim.cells.values())):
            return None
        costs: dict[str, Any] = {"command": f"{command('verify')} claim={claim.id}", "seconds": 0.0}
        verdict = from_ledger(claim, evidence)[1]
    elif (stored := evidence.verdict(claim)) is None:
        return None
    else:
        costs = {key: stored.record[key] for key in COSTS if key in stored.record}
        if claim.settings:
            verdict = conclude(claim, stored=stored, registries=registries_of(evidence.folder))[1]
        else:
            verdict = judge(stored.table, claim)
    return (
        noticed(verdict, claim, registries_of(evidence.folder))
        | costs
        | {"untuned": False, "untuned_word": None}
    )
