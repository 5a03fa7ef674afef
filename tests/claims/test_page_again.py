"""`docs/verdicts.md` says what the committed evidence says, and judging all of it again takes less than two minutes
of processor time."""

import re
import time

import numpy as np
import pytest
from committed import CLAIMS, ROOT

from normexp.claims.conclude import judge_all_again
from normexp.claims.evidence.networks import NETWORK
from normexp.claims.evidence.table import EVIDENCE, values_of
from normexp.claims.pages.holm import Family
from normexp.claims.pages.verdicts import SOURCES, table, write_verdicts

# Networks of a drawn bank are examined once its claims are registered; until then they have no values.
UNTRAINED = {
    name: claim
    for name, claim in CLAIMS.items()
    if claim.evidence != "training" and (not claim.drawn or values_of(EVIDENCE, claim) is not None)
}


def rows(text: str) -> dict[str, str]:
    """The rows of the tables of verdicts by id."""
    # the first of each: a later table has their p values
    lines = reversed(text.splitlines())
    return {name: line for line in lines for name in re.findall(r"^\| ([SPX]\d\w*) \|", line)}


@pytest.fixture(scope="module")
def verdicts():
    start = time.process_time()
    found = judge_all_again(UNTRAINED)
    assert time.process_time() - start < 120
    return found


@pytest.mark.integration
def test_the_page_has_the_verdicts_that_need_no_training_as_their_evidence_gives_them(verdicts):
    page = rows((ROOT / "docs" / "verdicts.md").read_text())
    family = Family.of(verdicts)
    for place in SOURCES:
        for name, row in rows(table(UNTRAINED, verdicts, place, family)).items():
            if name in UNTRAINED:
                holm = r"; [\w ,]+ under Holm over \d+ comparisons"  # of all verdicts of the page
                assert re.sub(holm, "", page[name]) == re.sub(holm, "", row), name


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


@pytest.mark.slow
def test_the_whole_page_is_what_is_committed(tmp_path):
    write_verdicts(tmp_path / "page.md", CLAIMS, judge_all_again(CLAIMS))
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "verdicts.md").read_text()
