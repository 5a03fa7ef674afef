"""The section of words that changed, and the file behind it."""

import yaml
from committed import CLAIMS, ROOT

from normexp.claims.pages.verdicts_page import FIRST_WORDS, page_of

WORDS = {"supported", "refuted", "inconclusive"}


def test_the_file_names_claims_and_words_and_says_why():
    found = yaml.safe_load((ROOT / FIRST_WORDS).read_text())
    assert len(found) > 40
    assert set(found) <= set(CLAIMS)
    assert {was["word"] for was in found.values()} == WORDS
    assert all(set(was) == {"word", "why"} and 0 < len(was["why"]) < 120 for was in found.values())


def test_each_row_has_the_first_word_the_reason_and_the_word_of_today(tmp_path):
    path = tmp_path / FIRST_WORDS
    path.parent.mkdir(parents=True)
    first = {name: {"word": "supported", "why": "one network"} for name in ("P10", "P09", "gone")}
    path.write_text(yaml.safe_dump(first))
    assert "| P10 | supported | one network | not yet run |" in page_of(CLAIMS, {}, tmp_path)
    assert "| gone |" not in page_of(CLAIMS, {}, tmp_path)
    path.write_text(yaml.safe_dump({"gone": first["gone"]}))
    assert "Words that changed" not in page_of(CLAIMS, {}, tmp_path)
