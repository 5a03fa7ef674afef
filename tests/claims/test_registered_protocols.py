"""Registered claims still ask what their rows of the registry fixed."""

import pytest
from committed import CLAIMS

from normexp.claims.evidence.protocol import resolved_protocol
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
def test_no_default_and_no_new_key_changed_a_registered_protocol(name):
    """A new key of the configuration must be no part of the identity at its default; see `identity`."""
    assert digest(resolved_protocol(CLAIMS[name])) == LAST[name].protocol


def test_each_claim_over_settings_has_a_row():
    """Without a row no verdict can say that its protocol came before its runs."""
    asked = {n for n, c in CLAIMS.items() if c.settings and c.evidence in ("training", "initialization")}
    assert asked <= LAST.keys()
