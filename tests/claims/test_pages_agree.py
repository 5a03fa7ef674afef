"""README.md, docs/bank.md and the verdicts say the same of the same runs, and of the same question."""

import dataclasses
import re

import pytest
from committed import BANK, CLAIMS, ROOT, judged

from normexp.claims.conclude import judge_again
from normexp.claims.judge.comparison import Comparison

# README.md has the table until findings over drawn settings replace it.
PAGES = [p for p in ("README.md", "docs/bank.md") if "| setting | none |" in (ROOT / p).read_text()]
PAIRS = [(arm, baseline) for arm in BANK.norms for baseline in BANK.norms if arm < baseline]


def compared(arm: str, baseline: str) -> dict:
    """The judged comparison of two norms in the settings of P06b, each seed at its best rate."""
    sides = {"kind": "smaller", "arm": arm, "baseline": baseline, "log": True, "margin": 0.1}
    claim = dataclasses.replace(
        CLAIMS["P06b"],
        metric="test/error",
        rate="own",
        arms={norm: [f"norm={norm}"] for norm in (arm, baseline)},
        comparisons=[Comparison(**sides)],
    )
    return judge_again(claim, ROOT)


def errors(page: str) -> dict[str, dict[str, float]]:
    """The first table of errors of a page: setting in words -> norm -> error in %, from that of the first norm and what
    each other adds."""
    found: dict[str, dict[str, float]] = {}
    lines = (ROOT / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line == f"| setting | {' | '.join(BANK.norms)} |")
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        what, *cells = line.strip("| ").split(" | ")
        first, *more = (float(cell.split()[0].rstrip(";")) for cell in cells)
        found[what] = dict(zip(BANK.norms, (first, *(first + one for one in more)), strict=True))
    return found


@pytest.mark.integration
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("arm", "baseline"), PAIRS)
def test_differences_of_a_verdict_are_those_of_the_table(arm, baseline, page):
    table, found = errors(page), 0
    for row in compared(arm, baseline)["settings"]:
        own = table[BANK.cells[row["name"]].what]
        # The verdict has the mean of log ratios, the table two decimals of means.
        assert 100 * row["points"] == pytest.approx(own[arm] - own[baseline], abs=0.02), row["name"]
        found += 1
    assert found == 12


@pytest.mark.integration
@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))]
)
def test_a_page_that_gives_a_claims_word_gives_the_committed_one(page):
    """`P10 (supported` or `P10 is refuted` in running text."""
    if page in ("docs/verdicts.md", "docs/first_judge.md"):
        return  # made from the verdicts; tests/claims/test_page_again.py compares them
    text = (ROOT / page).read_text()
    words = "supported|refuted|divided|undecided|varies|depends"
    for name, word in re.findall(rf"\b([PSX]\d{{2}}[a-z]?)\b\W{{1,3}}(?:is )?({words})", text):
        assert judged(name)["verdict"].startswith(word), name


ROW = re.compile(r"\| \*\*.*in (\d+) of (\d+) (?:drawn|hand-picked) settings.*\*\* \| (.*) \|$")
OTHERS = re.compile(r"[\w ()]+ in \d+(?:, [\w ()]+ in \d+)*\.")


def test_the_counts_in_a_row_of_the_verdicts_are_those_of_all_its_settings():
    """Where it holds, and each way in which it does not; several comparisons have counts of their own."""
    checked = 0
    for line in (ROOT / "docs" / "verdicts.md").read_text().splitlines():
        if (row := ROW.search(line)) and not re.search(r"(both|all \d) comparisons", line):
            others = OTHERS.match(row[3])
            not_so = re.findall(r" in (\d+)", others[0] if others else "")
            assert int(row[1]) + sum(map(int, not_so)) == int(row[2]), line
            checked += 1
    assert checked > 60


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
        assert (verdict["holds"], verdict["n"]) == (int(holds), int(n)), match[0]
