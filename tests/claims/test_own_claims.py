"""Claims in a user's own files."""

import pytest
from test_broken_claims import GOOD

from normexp.claims.spec.find import find, own_claims


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    return path


def test_a_path_stands_for_the_claim_in_it(mine):
    words, found = own_claims(f"S37, {mine}")
    assert words == "S37,mine"
    assert found["mine"].sentence == "s"


@pytest.mark.parametrize("name", ["law", "S06", "2503.10622"])
def test_a_file_brings_its_own_claim_whatever_its_name(name, mine):
    path = mine.rename(mine.with_name(f"{name}.yaml"))
    (claim,), left_out = find(str(path))
    assert (claim.id, claim.sentence, left_out) == (name, "s", [])
