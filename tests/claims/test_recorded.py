"""What a run recorded is no part of its identity: reached, never reached and not looked for are three values."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from committed import CLAIMS, altered
from refusals import refused

from normexp.claims.evidence import table
from normexp.claims.evidence.disk import DiskRuns, complete_cells, overrides_of, row_of
from normexp.claims.evidence.metric import late_gain, steps_to
from normexp.claims.evidence.rates import first_rates
from normexp.claims.evidence.registry import evidence_tag
from normexp.claims.evidence.settings import failed_runs, unfitted_arms
from normexp.claims.evidence.table import read
from normexp.claims.spec.cell import BankCell

DISK = "normexp.claims.evidence.disk"
SUMMARY = {
    "hash": "h", "choices": {"norm": "none"}, "status": "completed", "metrics": {"test/accuracy": 0.7}, "steps": 60,
    "seconds": 1.0, "execution": {"threads": 1}, "finished": "2026-01-01T00:00:00+00:00", "versions": {"torch": "2"},
}  # fmt: skip
VALIDATIONS = "step,epoch,seconds,metric,value\n" + "".join(
    f"{step},1,1,val/accuracy,{value}\n{step},1,1,val/loss,1\n"
    for step, value in ((20, 0.4), (40, 0.85), (60, 0.7))
)


def test_a_row_has_its_targets_its_commit_and_whether_its_tree_was_changed():
    """A target is reached, never reached or not looked for."""
    convergence = {"steps_to_0.9": None, "steps_to_0.8": 40, "auc": 0.5}
    told = {"checkout": {"commit": "c0ffee", "dirty": False}, "first": {"started": "then"}}
    row = row_of(SUMMARY | {"convergence": convergence} | told)
    assert (row["steps_to_0.9"], row["steps_to_0.8"]) == (math.inf, 40.0)
    assert math.isnan(row["steps_to_0.5"])
    assert (row["commit"], row["dirty"], row["started"]) == ("c0ffee", False, "then")
    assert (row["auc"], row["test_accuracy"], row["numerics"]) == (0.5, 0.7, 1)
    alone = row_of(SUMMARY | {"convergence": {}})
    assert (alone["commit"], alone["dirty"], alone["started"]) == ("", True, SUMMARY["finished"])


KEYS = ["setting", "arm", "level", "overrides", "seed", "lr"]


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Runs of a claim that lie in `tmp_path/SEED`, whose metrics.csv and convergence are given by seed."""

    def disk(logged, convergence, **changes):
        made = DiskRuns(altered(CLAIMS["P14"], manipulation=None, **changes), tmp_path)
        for seed, text in logged.items():
            (tmp_path / str(seed)).mkdir()
            (tmp_path / str(seed) / "metrics.csv").write_text(text)
        place = lambda grid: [SimpleNamespace(folder=tmp_path / str(seed)) for seed in grid["seed"]]  # noqa: E731
        monkeypatch.setattr(made, "specs", place)
        monkeypatch.setattr(f"{DISK}.read_summary", lambda folder: SUMMARY | {"convergence": convergence})
        monkeypatch.setattr(f"{DISK}.load_test_examples", lambda folder: SimpleNamespace(right=np.ones(12)))
        return made

    return disk


def test_rows_of_this_disk_have_their_own_seed_and_arms_share_a_run(disk):
    metrics = {"a": "logged/one/*", "b": "logged/two/*"}
    logged = {n: f"step,epoch,seconds,metric,value\n1,1,1,one/x,{n}\n1,1,1,two/x,{n}0\n" for n in (3, 4)}
    rows = [("", arm, "", "norm=none", seed, math.nan) for arm in "ab" for seed in (3, 4)]
    of = disk(logged, {}, cells={}, metric=metrics, arms={"a": [], "b": []})
    found = of.read(pd.DataFrame(rows, columns=KEYS))
    assert found["seed"].tolist() == [3, 4]
    assert found[["answers", "late_gain"]].isna().all(axis=None)
    assert found[[*metrics.values()]].to_numpy().tolist() == [[3.0, 30.0], [4.0, 40.0]]


@pytest.mark.parametrize(
    ("metric", "convergence", "column", "value"),
    [
        ("test/error", {}, "answers", 12.0),
        ("convergence/steps_to_0.97", {"steps_to_0.97": 40}, "steps_to_0.97", 40.0),
        ("convergence/steps_to_0.97", {"steps_to_0.97": None}, "steps_to_0.97", math.inf),
        ("convergence/steps_to_0.8", {}, "steps_to_0.8", 40.0),  # by its validations
    ],
)
def test_a_row_has_what_the_claim_reads(metric, convergence, column, value, disk):
    cell = BankCell(name="x", overrides=(), draw="mlp 1")
    of = disk({3: VALIDATIONS}, convergence, metric=metric, cells={"x": cell})
    arm = next(iter(of.claim.arms))
    found = of.read(pd.DataFrame([("x", arm, "", "norm=none", 3, 0.1)], columns=KEYS))
    assert found[column].tolist() == [value]
    assert found["late_gain"].tolist() == [pytest.approx(0.5)]  # from 0.6 wrong at step 20 to 0.3


@pytest.mark.parametrize(
    ("text", "status", "steps", "gain"),
    [(False, "completed", 60, 0.5), (False, "diverged", 60, math.nan), (False, "completed", 40, math.nan),
     (False, "completed", 47.5, 0.5), (True, "completed", 60, 0.0), (False, "completed", 100, -1.0)],
)  # fmt: skip
def test_what_a_run_still_gained_is_of_its_error_after_two_fifths(text, status, steps, gain, tmp_path):
    (tmp_path / "metrics.csv").write_text(VALIDATIONS)
    found = late_gain({"status": status, "steps": steps}, tmp_path, text=text)
    assert found == pytest.approx(gain, nan_ok=True)


def test_cells_are_completed_where_runs_are_trained():
    cell = BankCell(
        name="x", overrides=("model=mlp", "data=digits"), labels={"model": "MLP", "data": "digits"}
    )
    claim = altered(CLAIMS["P14"], cells={"x": cell})
    (found,) = complete_cells(claim).cells.values()
    assert (found.test, len(found.rates), found.is_complete) == ("test set", 5, True)
    assert complete_cells(altered(claim, cells={"x": found})).cells["x"] is found
    law = altered(claim, evidence="law")
    assert complete_cells(law) is law


def test_what_a_run_did_not_look_for_is_in_its_validations(tmp_path):
    (tmp_path / "metrics.csv").write_text(VALIDATIONS)
    assert [steps_to(tmp_path, target) for target in (0.3, 0.4, 0.7, 0.9)] == [20, 20, 40, math.inf]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.csv").write_text("step,epoch,seconds,metric,value\n1,1,1,lr,1\n")
    with refused(r"steps_to_0\.9: .* wrote down no validation"):
        steps_to(tmp_path / "other", 0.9)


@pytest.mark.parametrize(
    "word", ["accuracies=[0.5]", "log_every_n_steps=1", "monitor=full", "monitor.a.every_n_steps=2"]
)
def test_runs_that_record_something_else_lie_in_a_folder_of_their_own(word, tmp_path):
    assert "name=runs" in overrides_of("norm=none", tmp_path)
    (name,) = (part for part in overrides_of(f"norm=none\n{word}", tmp_path) if part.startswith("name="))
    assert re.fullmatch(r"name=watched-.{8}", name)


@pytest.mark.parametrize("metric", ["logged/turn/*", "convergence/auc"])
def test_a_kept_run_counts_only_where_it_recorded_what_a_claim_reads(tmp_path, monkeypatch, metric):
    claim = altered(CLAIMS["P14"], metric=metric, arms={"a": [], "b": []}, manipulation=None)
    grid = pd.DataFrame({"arm": ["a"] * 3, "overrides": ["x", "y", "z"], "seed": 0, "lr": math.nan})
    runs = grid.drop(columns="arm").assign(status=["completed", "completed", "diverged"], asked_by="P01:1")
    known = runs.assign(**{metric.removeprefix("convergence/"): [1.0, math.nan, math.nan]})
    for kept, own, found in (
        (known, claim, "xz"),
        (runs, claim, "z"),
        (runs, altered(claim, metric="test/error"), "xyz"),
    ):
        monkeypatch.setattr(table, "runs_in", lambda evidence, kept=kept: kept)
        assert read(tmp_path, grid, own)["overrides"].tolist() == [*found]


def test_runs_of_the_claims_own_protocol_come_first_then_those_of_a_bank(tmp_path, monkeypatch):
    """Those of an earlier protocol count like any others."""
    claim = altered(CLAIMS["P14"], metric="test/error", arms={"a": []})
    tags = ["P14:00000000", "bank:drawn bank:texts", f"P01:1 {evidence_tag(claim)}"]
    same = {"overrides": "x", "seed": 0, "lr": math.nan, "status": "completed"}
    runs = pd.DataFrame(same | {"asked_by": tags})
    for last in (3, 2, 1):
        monkeypatch.setattr(table, "runs_in", lambda evidence, last=last: runs[:last])
        found = read(tmp_path, runs[:1].assign(arm="a"), claim, runs[:1].assign(asked_by="disk"))
        assert found["asked_by"].tolist() == [tags[last - 1]]


KNOWN = BankCell(
    name="d", overrides=("batch_size=32",), draw="mlp 1", validation=100, chance=0.1, guess_loss=2.0,
    rates=(0.01, 0.03, 0.1), arm_rates={"layernorm": (0.1, 0.3, 1.0)}, labels={"optimizer": "SGD"},
)  # fmt: skip


def test_a_run_failed_that_diverged_guessed_or_lost_more_than_ten_times_a_guess():
    rows = [
        ("completed", 0.9, 0.5, 0.5, False), ("diverged", 0.9, 0.5, 0.5, True), ("completed", 0.9, 2.0, 20.0, False),
        ("completed", 0.9, 0.5, 20.1, True), ("completed", 0.9, math.nan, 0.5, True),
        ("completed", math.nan, 1.0, 1.0, True),
        ("completed", 0.21, 2.0, 2.0, False),  # so many of 100 right by chance: 0.08%
        ("completed", 0.2, 2.0, 2.0, True),  # 0.2%
    ]  # fmt: skip
    runs = pd.DataFrame(rows, columns=["status", "val_accuracy", "train_loss", "val_loss", "failed"])
    assert failed_runs(runs, KNOWN).tolist() == runs["failed"].tolist()
    alone = failed_runs(runs, altered(KNOWN, draw=""))
    assert alone.tolist() == [False, True, False, False, False, True, False, True]
    with refused(r"setting=bare: its facts are not known; write facts: \{validation"):
        failed_runs(runs, BankCell(name="bare", overrides=("model=mlp", "data=digits")))


@pytest.mark.parametrize(
    ("test", "gains", "numbers", "arms"),
    [
        ("test set", (0.05, 0.05), (0.9, 9.0), ("a",)),  # at the margins of the rules: 0.05, and 0.1 * 0.9 of errors
        ("test set", (0.05, 0.04), (0.5, 9.0), ()),  # in half of its runs
        ("test set", (0.05, 0.05), (0.92, 9.0), ()),
        ("blocks", (0.0, 0.0), (1.0, 1.5), ("a",)),
        ("blocks", (0.0, 0.0), (1.0, 1.4), ()),
    ],
)  # fmt: skip
def test_an_arm_is_unfitted_that_still_gained_in_most_of_its_runs(test, gains, numbers, arms):
    cell = altered(KNOWN, test=test, counts_loss=1.5)
    rows = [("a", gains[0]), ("a", gains[1]), ("b", math.nan), ("b", 0.0)]
    runs = pd.DataFrame(rows, columns=["arm", "late_gain"]).assign(failed=False, asked_by="P1:x")
    runs = runs.assign(train_accuracy=numbers[0], val_loss=numbers[1])
    runs.loc[runs["arm"] == "b", ["train_accuracy", "val_loss"]] = (1.0, 0.0)
    rules = SimpleNamespace(gain=0.05, learned=0.1)
    assert unfitted_arms(cell, runs, rules) == arms
    assert unfitted_arms(cell, runs.assign(failed=True), rules) == ()
    assert unfitted_arms(cell, runs.assign(asked_by="bank:drawn"), rules) == ()


@pytest.mark.parametrize(
    ("overrides", "optimizer", "rates"),
    [
        (["norm=batchnorm"], "SGD", (0.01, 0.03, 0.1)),
        (["norm=layernorm_detach"], "SGD", (0.1, 0.3, 1.0)),
        (["norm=layernorm", "batch_size=32"], "SGD", (0.1, 0.3, 1.0)),
        (["norm=none", "batch_size=320"], "SGD", (0.1, 0.3, 1.0)),
        (["norm=none", "batch_size=320"], "AdamW", (0.03, 0.1, 0.3)),
        (["norm=none", "batch_size=4"], "SGD", (0.001, 0.003, 0.01)),
    ],
)
def test_the_first_rates_are_those_of_the_norm_and_move_with_the_batch(overrides, optimizer, rates):
    assert first_rates(altered(KNOWN, labels={"optimizer": optimizer}), overrides) == rates
    setting = (*KNOWN.overrides, f"optimizer={optimizer.lower()}")  # it decides, whatever its label says
    assert first_rates(altered(KNOWN, overrides=setting, labels={"optimizer": "mine"}), overrides) == rates
