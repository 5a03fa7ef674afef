"""The section of `docs/verdicts.md` that shows first words beside those of today, and why a claim was judged again."""

from pathlib import Path
from typing import Any

import yaml

from normexp.claims.judge.verdict_text import with_scope
from normexp.claims.pages.page_counts import status
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS

FIRST_WORDS = Path("docs") / "evidence" / "first_words.yaml"
SAID = """## Words that changed

The first verdicts rested on one small network each, most of them on one split of digits with 360 test images. A review
found what was wrong with them. "First" is the word at that time, "why" the reason to judge again. A word that stayed
stayed after the new test.
"""


def first_words(root: Path = CONFIGS.parent) -> dict[str, dict[str, str]]:
    """The word of each claim's first verdict and why it was judged again, by id; empty outside a checkout."""
    path = root / FIRST_WORDS
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def changed_words(
    first: dict[str, dict[str, str]], claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]]
) -> str:
    """The section; empty if none of these claims has a first word.

    Args:
        first: as `first_words` gives it.
        claims, verdicts: of today, by id.
    """
    known = {name: was for name, was in first.items() if name in claims}
    if not known:
        return ""
    rows = ["| claim | first | why | now |", "|---|---|---|---|"]
    for name, was in known.items():
        verdict = verdicts.get(name)
        now = with_scope(verdict) if verdict else status(claims[name], None)
        rows.append(f"| {name} | {was['word']} | {was['why']} | {now} |")
    return SAID + "\n" + "\n".join(rows)
