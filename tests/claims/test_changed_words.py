"""The section of words that changed, and the file behind it."""

from normexp.claims.pages.verdicts_page import changed_words, first_words
from normexp.claims.spec.claim_files import load_claims
from normexp.config.folder import CONFIGS

WORDS = {"supported", "refuted", "inconclusive"}


def test_the_file_names_claims_and_words_and_says_why():
    found, claims = first_words(), load_claims(CONFIGS / "claim")
    assert len(found) > 40
    assert set(found) <= set(claims)
    assert {was["word"] for was in found.values()} == WORDS
    assert all(set(was) == {"word", "why"} and 0 < len(was["why"]) < 120 for was in found.values())


def test_each_row_has_the_first_word_the_reason_and_the_word_of_today():
    claims = load_claims(CONFIGS / "claim")
    first = {name: {"word": "supported", "why": "one network"} for name in ("P10", "P09", "gone")}
    text = changed_words(first, claims, {"P10": {"verdict": "refuted", "scope": "in 6 of 6 settings"}})
    assert text.splitlines()[-2:] == [
        "| P10 | supported | one network | refuted in 6 of 6 settings |",
        "| P09 | supported | one network | not yet run |",
    ]
    assert changed_words({"gone": first["gone"]}, claims, {}) == ""
