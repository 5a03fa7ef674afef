"""What a claim does not show: said of every claim, from its own settings, and no part of its protocol."""

import pytest
from committed import CLAIMS, altered, read_claim

from normexp.claims.evidence.registry import protocol_of
from normexp.claims.judge.head import few_of, limits_of
from normexp.claims.words import does_not_show, few_settings


def limits(claim) -> str:
    return does_not_show(limits_of(claim))


ONE = """
name: one
sentence: A norm helps.
source: me
covers: [one]
evidence: training
metric: test/error
measure: error
arms: {a: [norm=none], b: [norm=layernorm, model.width=48]}
fixed: [model=mlp, data=mnist, model.depth=3, max_steps=1200]
seeds: 5
comparison: {kind: equivalent, arm: a, baseline: b, margin: 0.01}
does_not_show: That it always helps.
"""


def test_every_claim_says_shortly_what_it_does_not_show():
    assert all(0 < len(limits(claim)) < 420 for claim in CLAIMS.values())


def test_it_is_made_from_the_settings_and_decides_nothing(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(ONE)
    claim = read_claim(path)
    assert limits(claim) == (
        "This does not show what holds in other settings than this one: MLP on MNIST, at most depth 3, width 48, "
        "1,200 updates. It does not exclude differences below its margin. Nor does it show: that it always helps."
    )
    assert protocol_of(claim) == protocol_of(altered(claim, does_not_show=""))
    path.write_text(ONE.replace("does_not_show: That it always helps.", "does_not_show: [a]"))
    with pytest.raises(ValueError, match=r"does_not_show=.*must be text"):
        read_claim(path)


def test_what_a_claim_chooses_itself_is_said_in_place_of_its_settings():
    assert "at most depth 8, width" in limits(CLAIMS["S91"])
    assert "200 updates" in limits(CLAIMS["P14"])
    assert "epoch" not in limits(CLAIMS["P14"])


def test_a_claim_over_few_drawn_settings_says_why():
    assert few_of(CLAIMS["P08"]) is None
    assert few_settings(few_of(CLAIMS["P12"])) == "few settings: 4 of the 48 of bank=drawn have model ResNet"
