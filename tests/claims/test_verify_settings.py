"""Claims over settings from their yaml to verdict.json: networks at initialization, runs of the bank's ledger."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from asked import over_settings, verify
from repository import git

from normexp.claims.evidence.initial import gather, initial_table
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.protocol import resolved_protocol
from normexp.claims.evidence.sources import InitialSource
from normexp.claims.evidence.stored import LEDGER, PLACE, StoredEvidence
from normexp.claims.pages.figure import draw
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.claim_files import read_claim
from normexp.claims.spec.registry import REGISTRY, digest, register

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
    verdict = verify(initial, tmp_path / "out")
    read = json.loads((tmp_path / "out" / "Q01" / "verdict.json").read_text())
    assert (read["verdict"], read["registered"]) == ("counted", None)
    assert read["scope"] == f"beyond the margin in {read['holds']} of 6 hand-picked settings"
    assert (read["n_seeds"], len(read["settings"]), read["effect"]) == (10, 6, None)
    table = pd.read_csv(tmp_path / "out" / "Q01" / "evidence.csv")
    assert len(table) == 6 * 2 * 10
    own = table[table["setting"] == "r2"].pivot(index="seed", columns="arm", values="value")
    effect = float(np.log(own["batchnorm"] / own["none"]).mean())
    assert verdict["settings"][0]["number"] == pytest.approx(effect, abs=1e-6)
    assert verdict["settings"][0]["labels"]["data"] == "digits"
    assert (tmp_path / "out" / "Q01" / "figure.png").stat().st_size > 1000


@pytest.mark.integration
@pytest.mark.parametrize(
    ("function", "norm", "settings", "counted"),
    [
        (
            "depth.cosine_similarity",
            "layernorm, eps=1e-12",  # which removes the scale of the weights
            {
                "he": "[model=mlp, model.depth=3, model.width=8, model.initialization=he]",
                "drawn_twice": "[model=mlp, model.depth=3, model.width=8, model.initialization=he]",
                "fixed_by_the_arm": "[model=mlp, model.depth=3, model.width=8, model.initialization=he, norm=none]",
                "scale": "[model=mlp, model.depth=3, model.width=8, model.initialization=small_gaussian]",
                "wide": "[model=mlp, model.depth=3, model.width=9, model.initialization=he]",
            },
            ["he", "wide"],
        ),
        (  # 0 by construction in networks of one block, which differ all the same
            "stream.unit_drift",
            "layernorm",
            {
                "narrow": "[model=transformer, model.depth=1, model.width=16, model.heads=2]",
                "wide": "[model=transformer, model.depth=1, model.width=32, model.heads=2]",
                "drawn_twice": "[model=transformer, model.depth=1, model.width=16, model.heads=2]",
            },
            ["narrow", "wide"],
        ),
    ],
)
def test_a_network_that_is_drawn_twice_counts_once(tmp_path, function, norm, settings, counted):
    (tmp_path / "claim").mkdir()
    path = tmp_path / "claim" / "Q01.yaml"
    head = INITIAL.partition("function")[0]
    path.write_text(
        f"{head}function: {function}\nmeasure: m\narms: {{a: [norm={norm}]}}\noptions: {{batch_size: 16}}\nseeds: 2\n"
        "comparison: {kind: smaller, arm: a, target: 1}\nsettings:\n"
        + "".join(f"  {name}: {own}\n" for name, own in settings.items())
    )
    claim = read_claim(path)
    assert verify(claim, tmp_path / "chosen")["n"] == len(settings)  # those that somebody chose all count
    verdict = verify(dataclasses.replace(claim, first=len(settings)), tmp_path / "out")
    assert [row["name"] for row in verdict["settings"]] == counted
    twice = len(settings) - len(counted)
    assert f"{twice} of {len(settings)} draws were the same network as an earlier one" in verdict["note"]
    table = pd.read_csv(tmp_path / "out" / "Q01" / "evidence.csv", keep_default_na=False)
    assert set(table["setting"]) == set(settings)  # what was passed over stays in the evidence


def test_an_arm_replaces_what_a_setting_says_whatever_the_other_settings_say(initial):
    shape = ["model=transformer", "model.depth=2", "model.width=16", "model.heads=2"]
    places = {place: f"model.norm_position={place}" for place in ("pre", "post")}
    claim = dataclasses.replace(
        initial,
        function="stream.stream_growth",
        options={"batch_size": 16},
        arms={place: ["norm=layernorm", word] for place, word in places.items()},
        seeds=2,
    )
    tables = {
        place: gather(dataclasses.replace(claim, settings={}, fixed=[*shape, word]))
        for place, word in places.items()
    }
    values = {place: own.pivot(index="seed", columns="arm", values="value") for place, own in tables.items()}
    pd.testing.assert_frame_equal(values["pre"], values["post"], check_exact=True)
    assert (values["pre"]["pre"] > values["pre"]["post"]).all()  # a Pre-LN stream is never normalized


@pytest.mark.integration
def test_a_registered_claim_has_its_row_and_a_changed_one_has_not(initial, tmp_path):
    initial = dataclasses.replace(initial, first=6)  # as if they were drawn
    row = register(
        tmp_path / REGISTRY,
        subject="Q01",
        protocol=digest(resolved_protocol(initial)),
        reason="r",
        seeds=[[0, 10]],
        commit="",
    )
    _, verdict = over_settings(initial, tmp_path)
    assert (verdict["registered"]["row"], verdict["registered"]["hash"]) == (1, row.hash)
    assert "unregistered" not in verdict["scope"]
    changed = dataclasses.replace(initial, options={"batch_size": 16, "step": 0.2})
    _, verdict = over_settings(changed, tmp_path)
    assert verdict["registered"] is None
    assert verdict["unregistered_because"] == "the protocol is not the one of row 1; register the amendment"


CELLS = ["mnist_mlp", "mnist_cnn", "digits_mlp", "digits_cnn", "cifar10_cnn", "cifar10_mlp"]
SEEDS, RATES, EXAMPLES = 11, [0.01, 0.03, 0.1], 400
TRAINED = f"""name: fewer_errors
sentence: BatchNorm has fewer errors.
source: s
covers: [Q02]
evidence: training
metric: test/error
measure: wrong answers on test
better: lower
arms: {{bn: [norm=batchnorm], none: [norm=none]}}
settings: [{", ".join(CELLS)}]
seeds: {SEEDS}
comparison: {{kind: smaller, arm: bn, baseline: none, log: true, margin: 0.1}}
"""


def make_bank(root: Path, commit: str) -> None:
    """A bank and a ledger in which BatchNorm has half the errors at its best rate, and seed 0 of one cell diverged."""
    generator = np.random.default_rng(0)
    (root / "configs" / "claims").mkdir(parents=True)
    cells = {}
    for name in CELLS:
        data, model = name.split("_")
        cells[name] = {
            "labels": {"data": data, "model": model}, "overrides": [f"data={data}", f"model={model}"], "rates": RATES,
            "test": "cut again" if data == "digits" else "test set", "replicas": False,
            "facts": {"validation": 300, "chance": 0.1, "guess_loss": 2.3, "test_to_train": 0.3},
        }  # fmt: skip
    bank = {"grid": {"norms": ["none", "batchnorm"], "seeds": SEEDS}, "cells": cells}
    (root / "configs" / "own.yaml").write_text(yaml.safe_dump(bank))
    (root / LEDGER).mkdir(parents=True)
    for name in CELLS:
        rows, right = [], {}
        for norm, error in (("none", 0.2), ("batchnorm", 0.1)):
            for rate in RATES:
                for seed in range(SEEDS):
                    bad = error if rate == 0.03 else 0.5
                    key = f"{name}-{norm}-{rate}-{seed}"
                    right[key] = generator.random(EXAMPLES) >= bad
                    lost = name == "mnist_cnn" and norm == "none" and seed == 0
                    status = "diverged" if lost else "completed"
                    rows.append({
                        "cell": name, "norm": norm, "lr": rate, "seed": seed, "status": status,
                        "test_accuracy": right[key].mean(), "val_accuracy": 1 - bad, "val_loss": bad,
                        "train_loss": bad, "seconds": 10.0, "hash": key,
                        "commit": commit, "code": "",
                        "dirty": False, "finished": "2026-02-01T00:00:00+00:00",
                    })  # fmt: skip
        pd.DataFrame(rows).to_csv(root / LEDGER / f"{name}.csv", index=False)
        np.savez_compressed(
            root / LEDGER / f"{name}.npz", hash=np.array(list(right)), shape=np.array([EXAMPLES]),
            right=np.stack([np.packbits(own) for own in right.values()]),
            test_set=np.array(["x"] * len(right)),
        )  # fmt: skip
    (root / "configs" / "claims" / "Q02.yaml").write_text(TRAINED)


def claim_in(root: Path):
    """The claim, as if its settings were drawn."""
    claim = read_claim(root / "configs" / "claims" / "Q02.yaml", load_bank(root / "configs" / "own.yaml"))
    return dataclasses.replace(claim, first=6)


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """A repository whose first commit has the row, and a ledger of runs at that commit."""
    protocol = {"the": "protocol"}  # its configurations are composed in other tests
    monkeypatch.setattr("normexp.claims.conclude.resolved_protocol", lambda claim: protocol)
    register(
        tmp_path / REGISTRY, subject="Q02", protocol=digest(protocol), reason="r", seeds=[[0, 10]], commit="",
        date="2026-01-01T00:00:00+00:00",
    )  # fmt: skip
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "row")
    make_bank(tmp_path, git(tmp_path, "rev-parse", "HEAD").strip())
    return tmp_path


def test_a_training_claim_reads_the_bank_and_its_runs_came_after_its_row(registered, tmp_path):
    claim = claim_in(registered)
    table, verdict = over_settings(claim, registered)
    assert verdict["verdict"] == "supported"
    assert verdict["scope"] == "beyond the margin in 6 of 6 drawn settings"
    assert verdict["registered"]["row"] == 1
    assert verdict["effect"] == pytest.approx(np.log(0.5), abs=0.1)
    assert verdict["failures"] == {"bn": {"failed": 0, "of": 66}, "none": {"failed": 1, "of": 66}}
    lost = verdict["settings"][1]
    assert (lost["name"], lost["failures"]) == ("mnist_cnn", {"bn": 0, "none": 1})
    assert lost["number"] < lost["trained"] < 0  # the failed run counts as a guess
    assert verdict["runs"] == {"trained": 0, "from_cache": 132, "training_seconds": 1320.0}
    assert len(table) == 132
    draw(table, verdict, tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 1000


def test_runs_before_their_row_make_an_unregistered_verdict(registered):
    path = registered / LEDGER / "mnist_cnn.csv"
    path.write_text(path.read_text().replace("2026-02-01", "2025-02-01"))
    claim = claim_in(registered)
    _, verdict = over_settings(claim, registered)
    assert verdict["registered"] is None
    assert verdict["scope"].endswith("unregistered")
    assert "before row 1 was registered" in verdict["unregistered_because"]


@pytest.mark.parametrize(
    ("date", "said"), [("2026-01-15", ""), ("2026-03-01", ", registered after 132 of 132 runs")]
)
def test_runs_after_the_banks_own_row_carry_claims_registered_later(registered, date, said):
    """Whose row the runs' commit does not have; how many runs had started by then is said."""
    row = registered / REGISTRY
    row.write_text("")
    where = {"commit": "", "reason": "r"}
    register(row, subject="bank", protocol="b", seeds=[[0, 11]], date="2026-01-01T00:00:00+00:00", **where)
    git(registered, "commit", "-aqm", "bank")
    commit = git(registered, "rev-parse", "HEAD").strip()
    for path in (registered / LEDGER).glob("*.csv"):
        table = pd.read_csv(path).assign(commit=commit)
        table.to_csv(path, index=False)
    register(
        row, subject="Q02", protocol=digest({"the": "protocol"}), seeds=[[0, 11]], date=f"{date}T00:00:00+00:00",
        **where,
    )  # fmt: skip
    _, verdict = over_settings(claim_in(registered), registered)
    assert verdict["registered"]["row"] == 2
    assert verdict["scope"] == f"beyond the margin in 6 of 6 drawn settings{said}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"fixed": ["optimizer=adam"]},
            "setting=mnist_mlp: 66 runs are missing, the first bn seed 0 lr 0.01",
        ),
        (
            {"arms": {"a": ["norm=dyt"], "b": ["norm=none"]}},
            "setting=mnist_mlp: 33 runs are missing, the first a",
        ),
        (
            {"seeds": 12, "rate": "lowest"},
            "setting=mnist_mlp: 2 runs are missing, the first bn seed 11 lr 0.01",
        ),
    ],
)
def test_runs_that_are_not_there_are_one_line(registered, changes, message):
    claim = dataclasses.replace(claim_in(registered), **changes)
    known = Known(claim, StoredEvidence(registered / PLACE), None)
    with pytest.raises(ValueError, match=f"claim=Q02: {message}"):
        known("", claim.settings)


def test_a_cell_without_a_ledger_is_named(registered):
    claim = dataclasses.replace(claim_in(registered), seeds=5)
    (registered / LEDGER / "mnist_cnn.csv").unlink()
    known = Known(claim, StoredEvidence(registered / PLACE), None)
    with pytest.raises(ValueError, match="claim=Q02: setting=mnist_cnn: 30 runs are missing"):
        known("", claim.settings)


def test_a_setting_may_change_an_option_and_name_a_data_set(initial):
    batch = ["model=mlp", "model.depth=2", "model.width=8", "options.batch_size=4"]
    changed = dataclasses.replace(
        initial, settings=initial.settings | {"small": [*batch, "data=digits"]}, seeds=5
    )
    both = dataclasses.replace(changed, settings={"small": changed.settings["small"], "same": batch})
    small, same = InitialSource(both, initial_table(both))("", both.settings)
    assert small.labels == {"data": "digits", "model": "MLP"}
    assert same.labels == {"data": "Gaussian noise", "model": "MLP"}
    table = gather(
        dataclasses.replace(
            changed, settings={}, fixed=[*batch[:-1], "data=digits"], options={"batch_size": 4, "step": 0.1}
        )
    )
    by_hand = table[table["arm"] == "none"].sort_values("seed")["value"]
    assert small.outcomes["none", ""].values.tolist() == by_hand.tolist()
    assert by_hand.tolist() != same.outcomes["none", ""].values.tolist()
    assert resolved_protocol(changed)["options of settings"] == {"small": {"batch_size": 4}}
