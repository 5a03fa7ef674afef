"""The committed claims and bank, read once for all tests, and the verdicts that the committed evidence gives them."""

import functools
from pathlib import Path
from typing import Any

from normexp.claims.conclude import judge_again
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_claims

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
BANK = load_bank()


CLAIMS: dict[str, Claim] = load_claims(CONFIGS / "claims")
TRAINED = [claim.id for claim in CLAIMS.values() if claim.evidence == "training"]


@functools.cache
def judged(name: str) -> dict[str, Any] | None:
    return judge_again(CLAIMS[name], ROOT)
