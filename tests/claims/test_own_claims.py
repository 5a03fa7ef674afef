"""Claims in a user's own files."""

import pytest

from normexp.claims.spec.find import find, own_claims

TEXT = """
name: dividing_by_n
sentence: Of two numbers the second is larger.
source: me
covers: [mine]
evidence: training
metric: test/accuracy
measure: test accuracy
arms: {one: [norm=none], two: [norm=layernorm]}
fixed: [model=mlp, data=digits]
seeds: 5
comparison: {kind: greater, arm: two, baseline: one, margin: 0.01}
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT)
    return path


def test_a_path_stands_for_the_claim_in_it(mine):
    words, found = own_claims(f"S37, {mine}")
    assert words == "S37,mine"
    assert found["mine"].sentence == "Of two numbers the second is larger."


@pytest.mark.parametrize("name", ["law", "S06", "2503.10622"])
def test_a_file_brings_its_own_claim_whatever_its_name(name, mine):
    path = mine.rename(mine.with_name(f"{name}.yaml"))
    (claim,), left_out = find(str(path))
    assert (claim.id, claim.sentence, left_out) == (name, "Of two numbers the second is larger.", [])
