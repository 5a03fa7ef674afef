"""README.md, docs/bank.md and the verdicts say the same of the same runs, and of the same question."""

import json
import math
import re
from collections import defaultdict

import numpy as np
import pytest
from committed import BANK, CLAIMS, ROOT, judged

PAGES = ("README.md", "docs/bank.md")
# They compare two norms of the bank, each seed at its best rate.
PAIRS = ("P03c", "P06a", "P08", "P10b", "P10c")


def errors(page: str) -> dict[str, dict[str, float]]:
    """The first table of errors of a page: setting in words -> norm -> error in %."""
    found: dict[str, dict[str, float]] = {}
    lines = (ROOT / page).read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line == f"| setting | {' | '.join(BANK.norms)} |")
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        what, *cells = line.strip("| ").split(" | ")
        found[what] = {norm: float(cell.split()[0]) for norm, cell in zip(BANK.norms, cells, strict=True)}
    return found


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", PAIRS)
def test_effects_of_a_verdict_are_the_log_ratios_of_the_tables_errors(name, page):
    claim, table = CLAIMS[name], errors(page)
    comparison = claim.comparisons[0]
    arm, baseline = (
        claim.arms[key][0].removeprefix("norm=") for key in (comparison.arm, comparison.baseline)
    )
    verdict = judged(name)
    compared = 0
    for row in verdict["settings"]:
        own = table[BANK.cell(row["name"]).what]
        if row["effect"] is None or row["failures"]["arm"] or row["failures"]["baseline"]:
            continue
        # The table has two decimals, and Haldane adds half a wrong answer.
        rounding = 0.006 * (1 / own[arm] + 1 / own[baseline]) + 0.5 * abs(1 / own[arm] - 1 / own[baseline])
        effect = math.log(own[arm] / own[baseline])
        assert row["effect"] == pytest.approx(effect, abs=rounding), row["name"]
        compared += 1
    assert compared >= 6


def test_the_figure_of_the_readme_and_P10_point_the_same_way():
    """An early verdict denied that BatchNorm suffers from a batch of 2, beside a figure of README.md that shows it."""
    study = json.loads((ROOT / "docs" / "data" / "readme.json").read_text())["study"]
    accuracy = defaultdict(list)
    for norm, batch, _, value in study["values"]:
        accuracy[norm, batch].append(value)
    small, large = (1 - np.mean(accuracy["batchnorm", batch]) for batch in (2, 64))
    verdict = judged("P10")
    (same,) = (row for row in verdict["settings"] if row["name"] == "epochs_digits")
    assert (np.log(small / large) > 0) == (same["effect"] > 0)
    assert verdict["verdict"] != "refuted" or small <= large


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))]
)
def test_a_page_that_gives_a_claims_word_gives_the_committed_one(page):
    """`P10 (supported` or `P10 is refuted` in running text."""
    if page == "docs/verdicts.md":
        return  # made from the verdicts; tests/claims/test_page_again.py compares it
    text = (ROOT / page).read_text()
    words = "supported|refuted|inconclusive|varies|depends"
    for name, word in re.findall(rf"\b([PSX]\d{{2}}[a-z]?)\b\W{{1,3}}(?:is )?({words})", text):
        assert judged(name)["verdict"].startswith(word), name
