"""`normexp bank add`: the row of a norm beside a bank's, and its badge."""

import json
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from normexp.claims.bank_arm import arm_claim, message_of, show, svg
from normexp.claims.conclude import conclude
from normexp.claims.evidence.keep import write_manifest
from normexp.claims.evidence.plan import Known, missing_keys
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.spec.bank import load_bank
from normexp.cli.bank import main

BANK = """
seed: 7
settings: 6
shared: [recipe=plain, trainer=cpu]
choose: {data: {digits: [data=digits]}, optimizer: {SGD: [optimizer=sgd]}, width: {key: model.width, low: 8, high: 64}}
strata: {mlp: {share: 1, choose: {model: {MLP: [model=mlp]}}}}
rates: {SGD: [0.03, 0.1, 0.3]}
length:
  {updates: 50, passes: 2, start_seconds: 5, seconds: 20, learned: 0.2, gain: 0.2, early: 2, widenings: 1, seed: 1}
grid: {norms: [none, layernorm], seeds: 2}
"""
CELL = """{labels: {data: digits, model: MLP}, overrides: [data=digits, model=mlp, max_steps=50],
    rates: [0.03, 0.1, 0.3], test: test set,
    facts: {validation: 300, chance: 0.1, guess_loss: 2.3, test_to_train: 0.3}}"""
LISTED = f"""
shared: [recipe=plain, trainer=cpu]
grid: {{norms: [none, layernorm], seeds: 2, cells: [one, two]}}
cells:
  one: {CELL}
  beside: {CELL.replace("=50", "=60")}
  two: {CELL.replace("=50", "=70")}
"""
RATES = [0.03, 0.1, 0.3]
ERRORS = {"none": 0.3, "layernorm": 0.2}  # of every run of the grid
MINE = [0.1, 0.1, 0.25, 0.295]  # of the own arm, by setting


@pytest.fixture
def bank(tmp_path):
    """A bank with pilots in four of its six settings."""
    path = tmp_path / "mine.yaml"
    path.write_text(BANK)
    facts = {"validation": 300, "chance": 0.1, "guess_loss": 2.3, "test_to_train": 0.3, "test": "test set"}
    rates = {norm: RATES for norm in ERRORS}
    pilot = {"updates": 50, "step_seconds": 0.002, "rates": rates, "values_per_statistic": 64, **facts}
    lines = [json.dumps({"draw": f"mlp {n}", **pilot}) for n in range(1, 5)]
    (tmp_path / "mine.pilots.jsonl").write_text("\n".join(lines) + "\n")
    return load_bank(path)


def runs(cell, norm, error, seeds=(0, 1)):
    rows = [
        {
            "cell": cell, "norm": norm, "lr": rate, "seed": seed, "status": "completed", "train_loss": 0.1,
            "train_accuracy": 1.0, "val_loss": 0.1, "val_accuracy": 0.9 - (rate != 0.1) * 0.1, "test_loss": 0.1,
            "test_accuracy": 1 - error - (rate != 0.1) * 0.5, "steps": 50, "seconds": 1.0, "replicas": 1,
            "precision": "32-true", "hash": f"{cell}{norm}{rate}{seed}", "finished": "2026-01-01T00:00:00+00:00",
            "started": "2026-01-01T00:00:00+00:00", "commit": "", "dirty": False, "code": "", "mode": "alone",
        }
        for rate in RATES
        for seed in seeds
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def ledger(bank, tmp_path):
    """The ledger of the bank, with the grid of its first four settings."""
    place = tmp_path / "ledger" / "mine"
    (place / "bank").mkdir(parents=True)
    write_manifest(place, [])
    for cell in list(bank.cells)[:4]:
        grid = pd.concat([runs(cell, norm, error) for norm, error in ERRORS.items()])
        grid.to_csv(place / "bank" / f"{cell}.csv", index=False)
    write_manifest(place, [f"bank/{cell}.csv" for cell in list(bank.cells)[:4]])
    return place


def with_own_arm(claim, ledger):
    """The own arm's runs, kept in the ledger as those of a claim."""
    own = pd.concat([runs(cell, claim.id, error) for cell, error in zip(claim.cells, MINE, strict=False)])
    place = ledger / "claims" / claim.id
    place.mkdir(parents=True)
    own.assign(level="", value=own["train_loss"], check=np.nan).to_csv(place / "runs.csv", index=False)
    write_manifest(ledger, [f"claims/{claim.id}/runs.csv"])


def test_only_the_own_arm_is_missing_at_the_rates_in_the_middle(bank, ledger):
    claim = arm_claim(bank, ["norm=dyt", "norm.alpha=2"], ledger, most=12, at="final")
    assert list(claim.cells) == list(bank.cells)[:4]  # as many as the ledger has
    missing = missing_keys(claim, Known(claim, StoredEvidence(ledger.parent), None))
    assert {key.arm for key in missing} == {"dyt"}
    assert len(missing) == 4 * 2 * len(RATES)
    assert claim.arms["dyt"] == ["norm=dyt", "norm.alpha=2"]
    assert len(arm_claim(bank, ["norm=dyt"], ledger, most=2, at="final").cells) == 2


def test_row_and_badge_count_settings_as_the_judge_does(bank, ledger, tmp_path, capsys):
    claim = arm_claim(bank, ["norm=dyt"], ledger, most=12, at="final")
    with_own_arm(claim, ledger)
    known = Known(claim, StoredEvidence(ledger.parent), None)
    assert missing_keys(claim, known) == []
    show(claim, conclude(claim, known)[1], tmp_path / "row", "final")
    row = json.loads((tmp_path / "row" / "row.json").read_text())
    for found in row["against"]:  # the practical margin is a point where the baseline errs over 10%
        ahead = sum(own < ERRORS[found["against"]] - 0.01 for own in MINE)
        behind = sum(own > ERRORS[found["against"]] + 0.01 for own in MINE)
        assert (found["ahead"], found["behind"], found["n"]) == (ahead, behind, 4)
        assert found["share"] == ahead / 4
        assert found["median"] == pytest.approx(np.median(MINE) - ERRORS[found["against"]])
    badge = json.loads((tmp_path / "row" / "badge.json").read_text())
    assert badge == {
        "schemaVersion": 1, "label": "normexp: dyt", "message": "ahead of layernorm in 2 of 4, behind in 2",
        "color": "#6a6a6a",
    }  # fmt: skip
    drawn = ElementTree.parse(tmp_path / "row" / "badge.svg").getroot()
    assert drawn.find("{*}title").text == f"{badge['label']}: {badge['message']}"
    assert "layernorm  2      0      2" in capsys.readouterr().out


def test_a_bank_of_listed_settings_gives_a_row_too(tmp_path, capsys):
    path, ledger = tmp_path / "listed.yaml", tmp_path / "ledger"
    path.write_text(LISTED)
    (ledger / "bank").mkdir(parents=True)
    write_manifest(ledger, [])
    for cell in ("one", "two"):
        grid = pd.concat([runs(cell, norm, error) for norm, error in ERRORS.items()])
        grid.to_csv(ledger / "bank" / f"{cell}.csv", index=False)
    write_manifest(ledger, ["bank/one.csv", "bank/two.csv"])
    claim = arm_claim(load_bank(path), ["norm=dyt"], ledger, most=12, at="final")
    assert list(claim.cells) == ["one", "two"]  # of the grid, not the one beside it
    known = Known(claim, StoredEvidence(ledger), None)
    assert len(missing_keys(claim, known)) == 2 * 2 * len(RATES)
    assert main(["add", "norm=dyt", f"bank={path}", f"evidence={ledger}", f"out={tmp_path}", "--plan"]) == 0
    assert "at most 12 runs to train; more where" in capsys.readouterr().out  # no cost, since none is known
    with_own_arm(claim, ledger)
    show(claim, conclude(claim, Known(claim, StoredEvidence(ledger), None))[1], tmp_path / "row", "final")
    row = json.loads((tmp_path / "row" / "row.json").read_text())
    assert [(one["against"], one["ahead"], one["n"]) for one in row["against"]] == [
        ("none", 2, 2),
        ("layernorm", 2, 2),
    ]


def test_a_badge_names_the_norm_against_which_it_stands_worst():
    good = {"against": "none", "n": 6, "ahead": 6, "behind": 0, "failed": 0}
    bad = {"against": "a<b", "n": 6, "ahead": 1, "behind": 3, "failed": 1}
    assert message_of([good]) == ("ahead of none in 6 of 6, behind in 0", "#2a7f3f")
    assert message_of([good, bad]) == ("ahead of a<b in 1 of 6, behind in 4", "#b04a2f")
    assert "a&lt;b" in svg("x", message_of([bad])[0], "#000")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add"], "norm=: is missing"),
        (["sub", "norm=dyt"], "sub: no such action"),
        (["add", "norm=dyt", "at=end"], "at=end: choose from final, early"),
        (["add", "norm=dyt", "settings=0"], "settings=0: must be a whole number"),
        (
            ["add", "norm=dyt", "bank=small", "at=early"],
            "at=early: the settings of bank=small are listed and have",
        ),
        (["add", "norm=dyt", "bank=networks"], "bank=networks: trains no networks"),
        (["add", "norm=none"], "norm=none: is a norm of bank=drawn already"),
        (["add", "norm=dyt", "evidence=nowhere"], "nowhere/drawn has no setting of it"),
    ],
)
def test_what_is_wrong_is_one_line(words, message, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
