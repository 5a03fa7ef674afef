"""The pages give the words and counts of the verdicts."""

import re

import pytest
from committed import ROOT, judged


@pytest.mark.integration
@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))]
)
def test_a_page_that_gives_a_claims_word_gives_the_committed_one(page):
    """`P10 (supported` or `P10 is refuted` in running text."""
    if page == "docs/verdicts.md":
        return  # made from the verdicts; tests/claims/test_page_again.py compares them
    text = (ROOT / page).read_text()
    words = "supported|refuted|divided|undecided|varies|depends"
    for name, word in re.findall(rf"\b([PSX]\d{{2}}[a-z]?)\b\W{{1,3}}(?:is )?({words})", text):
        assert judged(name).word.startswith(word), name


COUNTS = re.compile(
    r"(?P<holds>\d+) of (?P<n>\d+)(?: [\w-]+ settings)?(?: that [\w ]+)? \((?P<id>[PSX]\d{2}[a-z]?)[):]"
    r"|\b(?P<id2>[PSX]\d{2}[a-z]?): (?:[\w ]* in )?(?P<holds2>\d+) of (?P<n2>\d+)\b"
)


@pytest.mark.integration
def test_counts_of_settings_in_answers_are_those_of_the_verdicts():
    """`in 5 of 6 hand-picked settings (P10a)`, `(P17: 6 of 6 ...)`: of today's protocol, and of no earlier one."""
    found = list(COUNTS.finditer((ROOT / "docs" / "answers.md").read_text()))
    assert len(found) >= 6
    for match in found:
        name, holds, n = (match[key] or match[f"{key}2"] for key in ("id", "holds", "n"))
        verdict = judged(name)
        assert (verdict.counts[0].holds, verdict.counts[0].asked) == (int(holds), int(n)), match[0]
