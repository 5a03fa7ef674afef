"""What a claim does not show: said of every claim, from its own settings, and no part of its protocol."""

import pytest
from committed import CLAIMS, altered, read_claim

from normexp.claims.evidence.registry import protocol_of
from normexp.claims.judge.head import few_of, limits_of
from normexp.claims.words import does_not_show, few_settings


def limits(claim) -> str:
    return does_not_show(limits_of(claim))


LARGEST = {"depth {}": "model.depth=", "width {}": "model.width=", "{} updates": "max_steps="}
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


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_that_is_tested_says_what_it_does_not_show(name):
    claim = CLAIMS[name]
    said = limits(claim)
    assert 0 < len(said) < 420
    if claim.settings and claim.evidence != "law":
        models = {cell.labels["model"] for cell in claim.cells.values()}
        assert len(models) > 5 or all(model in said for model in models)
        own = [word for cell in claim.cells.values() for word in cell.overrides]
        for what, key in LARGEST.items():
            found = [word.removeprefix(key) for word in own if word.startswith(key)]
            sizes = [float(own) for own in found if own.replace(".", "").isdecimal()]
            words = [word for arm in claim.arms.values() for word in [*claim.fixed, *arm]]
            changed = any(f"{word}=".startswith(key) for word in [*words, *claim.factor])
            batches = any(f"{word}=".startswith("batch_size=") for word in [*words, *claim.factor])
            if what == "{} updates" and claim.drawn and batches:
                assert "updates" not in said  # they follow from the passes over the data
            elif sizes and not changed:
                assert what.format(f"{max(sizes):,g}") in said


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
    mlps = sum(cell.labels["model"] == "MLP" for cell in CLAIMS["P08"].drawn_from.cells.values())
    assert few_settings(few_of(CLAIMS["P29"])).startswith(
        f"few settings: {mlps} of the 48 of bank=drawn have model MLP, of which"
    )
    assert few_settings(few_of(CLAIMS["P29"])).endswith(" pays for the first 10")
