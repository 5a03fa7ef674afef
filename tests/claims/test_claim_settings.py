"""The settings of a claim: cells of a bank, chosen by name or label, or brought along, and what its protocol holds."""

import re

import pytest
from committed import CLAIMS, FILES, altered, read_claim
from test_broken_claims import OVER, line, read

from normexp.claims.evidence.registry import protocol_of
from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.cell import labels_of


def test_a_claim_over_settings_reads_cells_of_its_bank_shipped_ones_and_its_own(tmp_path):
    effect = {"value": "10.6 points", "where": "table 2", "size": "large", "effect": 0.4}
    settings = "[x, digits_mlp, {deep: [model=mlp, data=digits, model.depth=12]}]"
    text = line(f"settings: {settings}\npaper_effect: {effect}", OVER)
    claim = read(text, tmp_path)
    assert (list(claim.cells), claim.drawn, claim.values) == (["x", "digits_mlp", "deep"], False, 3 * 10 * 2)
    assert claim.cells["x"].overrides == ("model=mlp", "data=digits")
    assert claim.cells["deep"].overrides == ("model=mlp", "data=digits", "model.depth=12")
    assert claim.cells["deep"].labels == {"data": "digits", "model": "MLP"}
    assert claim.paper_effect == effect
    assert claim.manipulation.comparison == Comparison(kind="smaller", arm="a", baseline="b")


def test_labels_are_what_a_scope_says():
    assert labels_of(["model=cnn", "data=cifar10_jpeg", "lr=1"]) == {"data": "CIFAR-10", "model": "CNN"}
    assert labels_of(["model=mlp", "model=gpt", "data=mine"]) == {"data": "mine", "model": "GPT"}
    words = ["model.depth=3", "model.activation=relu", "model.initialization=he"]
    assert labels_of(words) == {"activation": "ReLU", "initialization": "He"}


def test_a_label_is_of_the_setting_only_where_the_claim_leaves_it_alone():
    labels = {"model": "CNN", "data": "MNIST", "activation": "tanh", "depth": "8", "batch size": "32"}
    claim = CLAIMS["P06a"].model_copy(update={"fixed": ["model=mlp", "model.activation=relu"]})
    claim = claim.model_copy(update={"factor": {"model.depth": [2, 4]}})
    left = {"model": "MLP", "data": "MNIST", "activation": "ReLU", "batch size": "32"}
    assert claim.labels_in(labels) == left
    arms = {"a": ["+batch_size=4"], "b": ["batch_size=8"]}
    claim = claim.model_copy(update={"arms": arms, "fixed": [], "factor": {}})
    assert claim.labels_in(labels | {"updates": "90"}) == {
        "model": "CNN", "data": "MNIST", "activation": "tanh", "depth": "8",
    }  # fmt: skip


def test_another_bank_of_the_project_takes_the_place_of_settings_that_it_lacks():
    claim = read_claim(FILES["P10"], load_bank("gpu"), "P10")
    assert set(claim.cells) == set(load_bank("gpu").cells)
    assert claim.first == 0  # a list that somebody chose
    law = read_claim(FILES["S01"], load_bank("gpu"), "S01")
    assert protocol_of(law) == protocol_of(CLAIMS["S01"])


def test_a_bank_that_is_missing_is_said():
    with pytest.raises(ValueError, match=r"absent.yaml: no such file; name a yaml with cells"):
        load_bank("absent.yaml")
    with pytest.raises(ValueError, match=r"bank=huge: no such bank; choose from drawn, .*or name a file"):
        load_bank("huge")


def test_the_protocol_is_all_that_decides_and_nothing_else(tmp_path):
    claim = read(OVER, tmp_path)
    for text in ("kind: ours", "note: n", "does_not_show: That."):
        assert protocol_of(read(line(text, OVER), tmp_path)) == protocol_of(claim), text
    for text in ("seeds: 11", "first_seed: 5", "rate: middle", "metric: test/loss", "settings: [x, y]"):
        assert protocol_of(read(line(text, OVER), tmp_path)) != protocol_of(claim), text
    other = re.sub("margin: 0.1", "margin: 0.2", OVER)
    assert protocol_of(read(other, tmp_path)) != protocol_of(claim)
    assert protocol_of(altered(claim, manipulation=None)) != protocol_of(claim)
