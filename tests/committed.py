"""The committed claims and bank, read once for all tests, and the verdicts that the committed evidence gives them."""

import functools
from pathlib import Path
from typing import Any

from normexp.claims.conclude import judge_all_again
from normexp.claims.judge.verdict import Verdict
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.find import documents, load_claims, read

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"


CLAIMS: dict[str, Claim] = load_claims(CONFIGS / "claims")
FILES = {name: path for path in (CONFIGS / "claims").glob("*.yaml") for name in documents(path)}
TRAINED = [claim.id for claim in CLAIMS.values() if claim.evidence == "training"]


def text_of(name: str) -> str:
    """The document of a claim of the project."""
    return documents(FILES[name])[name].text


def read_claim(path: Path, bank: Bank | None = None, name: str = "") -> Claim:
    """The claim of a file, of several the one with this id."""
    found = documents(path)
    return read(found[name or next(iter(found))], bank)


def altered(model: Any, **new: Any) -> Any:
    """A claim, a cell or a comparison with other values, which are not checked."""
    return model.model_copy(update=new)


@functools.cache
def judged(name: str) -> Verdict | None:
    return judge_all_again({name: CLAIMS[name]}).get(name)
