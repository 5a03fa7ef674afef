"""`docs/verdicts.md` says what the committed evidence says, and judging all of it again takes less than two minutes
of processor time."""

import time

import numpy as np
import pytest
from committed import CLAIMS, ROOT, judged

from normexp.claims.evidence.settings import NETWORK
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


def test_claims_about_initial_networks_are_over_settings_or_searched(verdicts):
    for name, claim in UNTRAINED.items():
        if claim.evidence == "initialization" and claim.kind != "self-check":
            assert claim.search or claim.settings, name
    over = {name for name, claim in UNTRAINED.items() if claim.settings}
    assert over <= verdicts.keys()


@pytest.mark.integration
def test_no_two_settings_of_a_claim_are_the_same_network(verdicts):
    """A norm removes the scale of the weights: settings that differ in it alone would be one, counted twice. Drawn
    networks are also told apart by the directions of what their maps give, since a measure may be at its end."""
    for name, claim in UNTRAINED.items():
        if not claim.settings:
            continue
        own = values_of(EVIDENCE, claim)
        own = own[own["part"].isin(["", NETWORK])]
        assert not claim.drawn or set(own[own["part"] == NETWORK]["setting"]) == set(claim.settings), name
        values = {
            setting: rows.sort_values(["part", "arm", "factor", "seed"])["value"].to_numpy()
            for setting, rows in own.groupby("setting")
        }
        counted = [row.name for row in verdicts[name].settings]

        def same(first: str, second: str, values: dict = values) -> bool:
            return np.allclose(values[first], values[second], rtol=1e-4, equal_nan=True)

        for i, first in enumerate(counted):
            for second in counted[:i]:
                assert not same(first, second), (name, first, second)
        for first in values.keys() - set(counted):  # passed over
            assert claim.drawn, (name, first)
            assert any(same(first, second) for second in counted), (name, first)


@pytest.mark.integration
def test_the_page_is_what_is_committed(verdicts, tmp_path):
    write_verdicts(tmp_path / "page.md", CLAIMS, verdicts)
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "verdicts.md").read_text()
