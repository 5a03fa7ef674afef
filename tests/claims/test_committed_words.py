"""Words of training claims over settings: judged again from the committed ledgers, they are those of the page."""

import re

import pandas as pd
import pytest
from committed import BANK, CLAIMS, ROOT, judged

from normexp.claims.evidence.claim_runs import ClaimCell
from normexp.claims.evidence.ledger import OWN_LEDGER, read_own_ledger
from normexp.claims.spec.bank import load_cells

CELLS = load_cells(ROOT / "configs")
KEPT = sorted(path.parent.name for path in (ROOT / OWN_LEDGER).glob("*/runs.csv"))


@pytest.mark.parametrize("name", KEPT)
def test_the_ledger_has_each_run_once_and_gives_the_word_of_the_page(name):
    claim = CLAIMS[name]
    table = read_own_ledger(ROOT / OWN_LEDGER, name)
    asked = {
        (cell, *run)
        for cell in claim.settings
        for run in ClaimCell(claim, CELLS[cell], BANK, pd.DataFrame({"cell": [], "lr": []})).wanted()
    }
    assert asked <= set(table[["cell", "norm", "level", "seed", "lr"]].itertuples(index=False, name=None))
    assert not table.duplicated(["cell", "norm", "level", "lr", "seed"]).any()
    assert not table["dirty"].any()
    verdict = judged(name)
    if verdict is None:  # some cells of the bank are not trained yet
        return
    assert verdict["registered"] is not None, verdict["unregistered_because"]
    assert verdict["pairs"] >= 60 or verdict["verdict"] == "inconclusive"
    row = re.search(rf"^\| {name} \|.*$", (ROOT / "docs" / "verdicts.md").read_text(), re.MULTILINE)
    if row and claim.sentence in row[0]:  # else the page is older than the claim
        assert f"**{verdict['verdict']}" in row[0]
        assert verdict["scope"] in row[0]
