"""A key that only describes a claim changes its word nowhere: the word is the same, or the key is refused."""

import dataclasses

import pytest
import yaml
from committed import CLAIMS, read_claim, text_of

from normexp.claims.conclude import conclude
from normexp.claims.evidence.table import EVIDENCE
from normexp.claims.gather import kept

ABSENT = object()
DESCRIPTIVE = {
    "name": ["other"],
    "source": ["me"],
    "arxiv": [ABSENT, ["1502.03167"]],
    "covers": [[], ["Z1"]],
    "kind": [ABSENT, "verbatim", "paraphrase", "reading", "ours", "arithmetic", "self-check"],
    "note": [ABSENT, "A note."],
    "does_not_show": [ABSENT, "That."],
    "paper_effect": [ABSENT, {"value": "10 points", "effect": 0.4}],
    "measure": ["share of things", "steps", "relative thing"],
    "better": [ABSENT, "lower", "higher"],
    "expected": [ABSENT, "supported", "refuted", "undecided"],
    "seconds": [ABSENT, 90.0],
}
# A law with a universal sentence, two searches, a slope; networks that were drawn; runs over drawn and chosen settings.
NAMES = ("S05", "P17b", "X01", "S30", "S21", "P06a", "P10a")


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_the_word_is_the_same_or_the_key_is_refused(name, tmp_path):
    evidence = kept(CLAIMS[name], EVIDENCE)
    assert evidence is not None
    node = yaml.safe_load(text_of(name))

    def word(changes: dict) -> str | None:
        own = {key: value for key, value in (node | changes).items() if value is not ABSENT}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(own, allow_unicode=True))
        try:
            claim = read_claim(path)
        except ValueError:
            return None
        return conclude(dataclasses.replace(evidence, claim=claim), [])[1].word

    first = word({"expected": ABSENT})
    assert first is not None
    words = {
        (key, str(value)): word({"expected": ABSENT, key: value})
        for key, own in DESCRIPTIVE.items()
        for value in own
    }
    assert {key: found for key, found in words.items() if found not in (None, first)} == {}
    assert sum(found is None for found in words.values()) <= 3  # `expected` of a universal sentence alone
