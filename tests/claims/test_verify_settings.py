"""Claims over settings from their yaml to verdict.json: networks at initialization, runs of the bank's ledger."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from committed import altered, read_claim

from normexp.claims.evidence.initial import gather, initial_table
from normexp.claims.evidence.settings import NETWORK, different, settings_of_values
from normexp.claims.spec.cell import BankCell
from normexp.claims.verify import verified
from normexp.claims.words import note

SMALL = "model.width=8, model.activation"
INITIAL = f"""name: gradients_turn_less
sentence: BatchNorm makes gradients turn less.
source: s
covers: [Q01]
kind: ours
evidence: initialization
function: covariate_shift.gradient_turn
measure: turn
arms: {{batchnorm: [norm=batchnorm], none: [norm=none]}}
options: {{batch_size: 16, step: 0.1}}
settings:
  - r2: [model=mlp, data=digits, model.depth=2, {SMALL}=relu, model.initialization=xavier]
    t2: [model=mlp, model.depth=2, {SMALL}=tanh, model.initialization=xavier]
    r4: [model=mlp, model.depth=4, {SMALL}=relu, model.initialization=xavier]
    t4: [model=mlp, model.depth=4, {SMALL}=tanh, model.initialization=xavier]
    h2: [model=mlp, model.depth=2, {SMALL}=relu, model.initialization=he]
    c: [model=cnn, {SMALL}=relu, model.initialization=he]
seeds: 10
comparison: {{kind: smaller, arm: batchnorm, baseline: none, log: true, margin: 0.223}}
"""


@pytest.fixture
def initial(tmp_path):
    (tmp_path / "claim").mkdir()
    path = tmp_path / "claim" / "Q01.yaml"
    path.write_text(INITIAL)
    return read_claim(path)


@pytest.mark.integration
def test_a_claim_about_initial_networks_is_judged_over_its_settings(initial, tmp_path):
    verdict = verified(initial, tmp_path / "out", "c", [])
    read = json.loads((tmp_path / "out" / "Q01" / "verdict.json").read_text())
    assert (read["verdict"], read["registered"]) == ("counted", None)
    assert read["scope"] == f"beyond the margin in {read['holds']} of 6 hand-picked settings"
    assert (read["n_seeds"], len(read["settings"]), read["effect"]) == (10, 6, None)
    table = pd.read_csv(tmp_path / "out" / "Q01" / "evidence.csv")
    assert len(table) == 6 * 2 * 10
    own = table[table["setting"] == "r2"].pivot(index="seed", columns="arm", values="value")
    effect = float(np.log(own["batchnorm"] / own["none"]).mean())
    assert verdict.settings[0].number == pytest.approx(effect, abs=1e-6)
    assert verdict.settings[0].labels["data"] == "digits"
    assert (tmp_path / "out" / "Q01" / "figure.png").stat().st_size > 1000


HE = "model=mlp, model.depth=3, model.width=8, model.initialization=he"
SIX = {
    "he": HE, "drawn_twice": HE, "fixed_by_the_arm": f"{HE}, norm=none", "scale": HE.replace("=he", "=small_gaussian"),
    "wide": HE.replace("width=8", "width=9"), "deep": HE.replace("=3", "=4"),
}  # fmt: skip


@pytest.mark.integration
def test_a_network_that_is_drawn_twice_counts_once(tmp_path):
    """With an eps of 1e-12 the norm removes the scale of the weights."""
    node = yaml.safe_load(INITIAL) | {
        "function": "depth.cosine_similarity", "arms": {"a": ["norm=layernorm", "eps=1e-12"]}, "seeds": 2,
        "options": {"batch_size": 16}, "comparison": {"kind": "smaller", "arm": "a", "target": 1},
        "settings": [{name: words.split(", ")} for name, words in SIX.items()],
    }  # fmt: skip
    (tmp_path / "Q01.yaml").write_text(yaml.safe_dump(node))
    claim = read_claim(tmp_path / "Q01.yaml")
    chosen = verified(claim, tmp_path / "chosen", "c", [])
    assert chosen.counts[0].n == 6  # those that somebody chose all count
    verdict = verified(altered(claim, first=6), tmp_path / "out", "c", [])
    assert [row.name for row in verdict.settings] == ["he", "wide", "deep"]
    assert "3 of 6 draws were the same network as an earlier one" in note(verdict)
    table = pd.read_csv(tmp_path / "out" / "Q01" / "evidence.csv", keep_default_na=False)
    assert set(table["setting"]) == SIX.keys()  # what was passed over stays in the evidence


@pytest.mark.parametrize(
    ("second", "network", "names"), [(1.0, 2.0, ["a"]), (1.0, 9.0, ["a", "b"]), (8.0, 2.0, ["a", "b"])]
)
def test_a_network_is_the_same_only_with_equal_values_and_directions(initial, second, network, names):
    cells = {name: BankCell(name=name, overrides=()) for name in "ab"}
    claim = altered(initial, cells=cells, arms={"x": []}, seeds=1, first=2)
    rows = [("", "a", 1.0), ("", "b", second), (NETWORK, "a", 2.0), (NETWORK, "b", network)]
    table = pd.DataFrame(rows, columns=["part", "setting", "value"]).assign(arm="x", factor="", seed=0)
    assert [own.name for own in different(claim, table)] == names


def test_an_arm_replaces_what_a_setting_says_whatever_the_other_settings_say(initial):
    shape = ["model=transformer", "model.depth=2", "model.width=16", "model.heads=2"]
    places = {place: f"model.norm_position={place}" for place in ("pre", "post")}
    arms = {place: ["norm=layernorm", word] for place, word in places.items()}
    own = {
        "function": "stream.stream_growth",
        "options": {"batch_size": 16},
        "arms": arms,
        "seeds": 2,
        "cells": {},
    }
    tables = [gather(altered(initial, **own, fixed=[*shape, word])) for word in places.values()]
    pre, post = (table.pivot(index="seed", columns="arm", values="value") for table in tables)
    pd.testing.assert_frame_equal(pre, post, check_exact=True)
    assert (pre["pre"] > pre["post"]).all()  # a Pre-LN stream is never normalized


def test_a_setting_may_change_an_option_and_name_a_data_set(initial):
    shape = ["model=mlp", "model.depth=2", "model.width=8"]
    words = {
        "small": (*shape, "options.batch_size=4", "data=digits"),
        "same": (*shape, "options.batch_size=4"),
    }
    cells = {name: BankCell(name=name, overrides=own) for name, own in words.items()}
    both = altered(initial, cells=cells, seeds=5)
    small, same = settings_of_values(both, initial_table(both))
    assert small.labels == {"data": "digits", "model": "MLP"}
    assert same.labels == {"data": "Gaussian noise", "model": "MLP"}
    by_hand = altered(both, cells={}, fixed=[*shape, "data=digits"], options={"batch_size": 4, "step": 0.1})
    values = gather(by_hand).query("arm == 'none'").sort_values("seed")["value"].tolist()
    assert small.outcomes["none", ""].values.tolist() == values != same.outcomes["none", ""].values.tolist()
