"""Judge every verdict again from the evidence committed in `docs/evidence`, without training or building a network."""

from pathlib import Path
from typing import Any

from normexp.claims.evidence.kept import COSTS, KEPT, older, read_kept
from normexp.claims.judge import judge
from normexp.claims.spec.claim import Claim
from normexp.claims.verify_settings import over_settings
from normexp.config.folder import CONFIGS
from normexp.config.invocation import command


def judge_all_again(claims: dict[str, Claim], root: Path = CONFIGS.parent) -> dict[str, dict[str, Any]]:
    """The verdict of every claim whose evidence is committed, by id."""
    found = {name: judge_again(claim, root) for name, claim in claims.items() if claim.evidence != "none"}
    return {name: verdict for name, verdict in found.items() if verdict is not None}


def judge_again(claim: Claim, root: Path = CONFIGS.parent) -> dict[str, Any] | None:
    """The verdict of one claim; None if its evidence is not committed or not complete."""
    kept = read_kept(root / KEPT, claim)
    if claim.settings and claim.evidence == "training":
        try:
            verdict = over_settings(claim, root)[1]
            costs = {"command": f"{command('verify')} claim={claim.id}", "seconds": 0.0}
            return verdict | costs | {"untuned": False, "untuned_word": None}
        except (ValueError, FileNotFoundError):  # some cells of the bank are not trained yet
            return older(claim, kept.record) if kept and kept.table is None else None
    if kept is None:
        return None
    if kept.table is None:
        return older(claim, kept.record)
    if claim.settings:
        verdict = over_settings(claim, root, kept)[1]
    else:
        verdict = judge(kept.table, claim, looks=len(claim.looks) if claim.evidence == "training" else 1)
    costs = {key: kept.record[key] for key in COSTS if key in kept.record}
    return verdict | costs | {"untuned": False, "untuned_word": None}
