"""Judge every verdict again from the evidence committed in `docs/evidence`, without training or building a network."""

import json
from pathlib import Path
from typing import Any

from normexp.claims.evidence.kept import COSTS, KEPT, Kept, older, read_kept
from normexp.claims.judge.verdict import make_verdict
from normexp.claims.pages.site.write import write_site
from normexp.claims.pages.verdicts_page import page_of, write_text
from normexp.claims.spec.claim import Claim
from normexp.claims.verify_settings import over_settings
from normexp.config.folder import CONFIGS
from normexp.invocation import command

EQUAL_ARMS = Path("docs") / "evidence" / "equal_arms.json"


def judge_all_again(claims: dict[str, Claim], root: Path = CONFIGS.parent) -> dict[str, dict[str, Any]]:
    """The verdict of every claim whose evidence is committed, by id."""
    found = {name: judge_again(claim, root) for name, claim in claims.items() if claim.evidence != "none"}
    return {name: verdict for name, verdict in found.items() if verdict is not None}


def judge_again(claim: Claim, root: Path = CONFIGS.parent) -> dict[str, Any] | None:
    """The verdict of one claim; None if its evidence is not committed or not complete."""
    if claim.settings and claim.evidence == "training":
        return _from_ledger(claim, root) or _older(claim, root)
    kept = read_kept(root / KEPT, claim)
    if kept is None:
        return None
    if kept.table is None:
        return older(claim, kept.record)
    costs = {key: kept.record[key] for key in COSTS if key in kept.record}
    return _judged(claim, kept, root) | costs | {"untuned": False, "untuned_word": None}


def _judged(claim: Claim, kept: Kept, root: Path) -> dict[str, Any]:
    if claim.settings:
        return over_settings(claim, root, kept)[1]
    looks = len(claim.looks) if claim.evidence == "training" else 1
    return make_verdict(claim, kept.known_table, looks=looks, extra={})


def _from_ledger(claim: Claim, root: Path) -> dict[str, Any] | None:
    try:
        verdict = over_settings(claim, root)[1]
    except (ValueError, FileNotFoundError):  # some cells of the bank are not trained yet
        return None
    own = {"command": f"{command('verify')} claim={claim.id}", "seconds": 0.0}
    return verdict | own | {"untuned": False, "untuned_word": None}


def _older(claim: Claim, root: Path) -> dict[str, Any] | None:
    kept = read_kept(root / KEPT, claim)
    return older(claim, kept.record) if kept and kept.table is None else None


def write_page_again(path: Path, claims: dict[str, Claim], root: Path = CONFIGS.parent) -> str:
    """Write the page of all verdicts, or their site where `path` does not end in .md, from the committed evidence.
    Returns a line on its content."""
    verdicts = judge_all_again(claims, root)
    if path.suffix != ".md":
        return write_site(path, claims, verdicts, root)
    equal = root / EQUAL_ARMS
    real = json.loads(equal.read_text()) if equal.exists() else []
    return write_text(path, page_of(claims, verdicts, real), claims, verdicts)
