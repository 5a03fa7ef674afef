"""Words of training claims over settings: judged again from the committed ledgers, they are those of the page."""

import re

import pytest
from committed import CLAIMS, ROOT, judged

from normexp.claims.evidence.plan import Known, missing_keys
from normexp.claims.evidence.stored import OWN_LEDGER, StoredEvidence

STORED = StoredEvidence()
# A claim over drawn settings has a ledger of its bank; its runs of the first judge stay as they are.
KEPT = sorted(
    path.parent.name for path in (ROOT / OWN_LEDGER).glob("*/runs.csv") if not CLAIMS[path.parent.name].drawn
)


@pytest.mark.integration
@pytest.mark.parametrize("name", KEPT)
def test_the_ledger_has_each_run_once_and_gives_the_word_of_the_page(name):
    claim = CLAIMS[name]
    assert missing_keys(claim, Known(claim, STORED, None)) == []
    table = STORED.own_rows(claim)
    assert not table.duplicated(["cell", "norm", "level", "lr", "seed"]).any()
    assert not table["dirty"].any()
    verdict = judged(name)
    assert (verdict["registered"] is not None) == claim.drawn
    row = re.search(rf"^\| \[{name}\].*$", (ROOT / "docs" / "verdicts.md").read_text(), re.MULTILINE)
    if row and claim.sentence in row[0]:  # else the page is older than the claim
        assert verdict["scope"] in row[0]
