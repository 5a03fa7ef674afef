"""`docs/verdicts.md` says what the committed evidence says, and judging all of it again takes less than two minutes
of processor time."""

import time

import pytest
from committed import CLAIMS, ROOT, judged

from normexp.claims.evidence.table import EVIDENCE, values_of
from normexp.claims.pages.verdicts import write_verdicts

# Networks of a drawn bank are examined once its claims are registered; until then they have no values.
UNTRAINED = {
    name: claim
    for name, claim in CLAIMS.items()
    if claim.evidence != "training" and (not claim.drawn or values_of(EVIDENCE, claim) is not None)
}


@pytest.fixture(scope="module")
def verdicts():
    start = time.process_time()
    found = {name: verdict for name in CLAIMS if (verdict := judged(name))}
    assert time.process_time() - start < 120
    return found


def test_every_claim_that_needs_no_training_has_its_evidence_committed():
    missing = [name for name, claim in UNTRAINED.items() if values_of(EVIDENCE, claim) is None]
    assert missing == []


@pytest.mark.integration
def test_the_page_is_what_is_committed(verdicts, tmp_path):
    write_verdicts(tmp_path / "page.md", CLAIMS, verdicts)
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "verdicts.md").read_text()
