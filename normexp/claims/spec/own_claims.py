"""Claims in a user's own files, named by their paths: `claim=mine.yaml`."""

from pathlib import Path

from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import read_claim
from normexp.claims.spec.select import words

ENDING = ".yaml"


def own_claims(text: str, budget: str) -> tuple[str, dict[str, Claim]]:
    """The list of claims with ids instead of paths, and the claims of the files by id.

    Raises ValueError with one line for a missing file, for a file that is no claim, and for two files with one name.
    """
    found: dict[str, Claim] = {}
    named = []
    for word in words(text):
        if not word.endswith(ENDING):
            named.append(word)
            continue
        path = Path(word)
        if not path.is_file():
            raise ValueError(f"claim={word}: no such file; name a yaml, or an id such as S37")
        if path.stem in found:
            raise ValueError(f"claim={word}: two files have the name {path.stem}; rename one")
        found[path.stem] = read_claim(path, budget)
        named.append(path.stem)
    return ",".join(named), found
