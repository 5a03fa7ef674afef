"""Registered claims still ask what their rows of the registry fixed."""

import json

import pytest
from committed import CLAIMS, ROOT

from normexp.claims.evidence.protocol import cells, resolved_cells, resolved_protocol
from normexp.claims.evidence.stored import PLACE, StoredEvidence, ledger_of_bank
from normexp.claims.spec.registry import REGISTRY, digest, latest, read_registry, subject_of
from normexp.config.folder import CONFIGS

ROWS = read_registry(CONFIGS.parent / REGISTRY)
LAST = {
    name: row
    for name, claim in CLAIMS.items()
    if (row := latest(ROWS, subject_of(name, claim.budget))) is not None
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAST)
def test_no_default_and_no_new_key_changed_a_registered_configuration(name):
    """A new key of the configuration must be no part of the identity at its default; see `identity`. The rules of the
    first judge are text of the protocol, and its contrasts are gone."""
    row = LAST[name]
    kept = json.loads((ROOT / PLACE / row.file).read_text())
    if CLAIMS[name].drawn_from is not None:  # registered under the judge of today, so all of it is fixed
        assert digest(kept) == digest(resolved_protocol(CLAIMS[name])) == row.protocol
        return
    today = resolved_cells(cells(CLAIMS[name]))
    assert today["cells"].keys() <= kept["cells"].keys()
    for cell, own in today["cells"].items():
        assert today["common"] | own == kept["common"] | kept["cells"][cell], cell
    assert [c.shown() for c in CLAIMS[name].comparisons] == kept["comparisons"]


def test_each_claim_over_drawn_settings_has_a_row():
    """Without a row no word can say that its protocol came before its runs; so a row comes before evidence."""
    seen = {name for name, claim in CLAIMS.items() if claim.drawn and has_evidence(claim)}
    assert seen <= LAST.keys()


def has_evidence(claim) -> bool:
    stored = StoredEvidence().verdict(claim)
    return bool(StoredEvidence(ledger_of_bank(claim.drawn_from)).files()) or bool(
        stored and stored.record.get("row")
    )
