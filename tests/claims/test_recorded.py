"""What a run recorded is no part of its identity: reached, never reached and not looked for are three values."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest
from committed import CLAIMS, altered

from normexp.claims.evidence import table
from normexp.claims.evidence.disk import DiskRuns, complete_cells, overrides_of, row_of
from normexp.claims.evidence.grid import grid_of
from normexp.claims.evidence.metric import column_of, steps_to
from normexp.claims.evidence.settings import failed_runs
from normexp.claims.evidence.table import read
from normexp.claims.spec.cell import BankCell

SUMMARY = {
    "hash": "h", "choices": {"norm": "none"}, "status": "completed", "metrics": {"test/accuracy": 0.7}, "steps": 60,
    "seconds": 1.0, "execution": {"threads": 1}, "finished": "2026-01-01T00:00:00+00:00", "versions": {"torch": "2"},
}  # fmt: skip
VALIDATIONS = "step,epoch,seconds,metric,value\n" + "".join(
    f"{step},1,1,val/accuracy,{value}\n{step},1,1,val/loss,1\n"
    for step, value in ((20, 0.4), (40, 0.85), (60, 0.7))
)


@pytest.mark.parametrize(
    ("convergence", "kept"), [({"steps_to_0.9": 40}, 40.0), ({"steps_to_0.9": None}, math.inf)]
)
def test_a_target_is_reached_never_reached_or_not_looked_for(convergence, kept):
    row = row_of(SUMMARY | {"convergence": convergence})
    assert row["steps_to_0.9"] == kept
    assert math.isnan(row["steps_to_0.5"])


@pytest.mark.parametrize("dirty", [False, True])
def test_a_row_has_the_commit_and_whether_its_tree_was_changed(dirty):
    told = {"checkout": {"commit": "c0ffee", "dirty": dirty}, "first": {"started": "then"}}
    row = row_of(SUMMARY | {"convergence": {"auc": 0.5}} | told)
    assert (row["commit"], row["dirty"], row["started"]) == ("c0ffee", dirty, "then")
    assert (row["auc"], row["test_accuracy"], row["numerics"]) == (0.5, 0.7, 1)
    alone = row_of(SUMMARY | {"convergence": {}})
    assert (alone["commit"], alone["dirty"], alone["started"]) == ("", True, SUMMARY["finished"])


def test_rows_of_this_disk_have_their_own_seed_and_arms_share_a_run(tmp_path, monkeypatch):
    metrics = {"a": "logged/one/*", "b": "logged/two/*"}
    claim = altered(CLAIMS["P14"], cells={}, metric=metrics, arms={"a": [], "b": []}, manipulation=None)
    rows = [("", arm, "", "norm=none", seed, math.nan) for arm in "ab" for seed in (3, 4)]
    grid = pd.DataFrame(rows, columns=["setting", "arm", "level", "overrides", "seed", "lr"])
    disk = DiskRuns(claim, tmp_path)
    folders = {seed: SimpleNamespace(folder=tmp_path / str(seed)) for seed in (3, 4)}
    monkeypatch.setattr(disk, "specs", lambda grid: [folders[seed] for seed in grid["seed"]])
    logged = "step,epoch,seconds,metric,value\n1,1,1,one/x,{0}\n1,1,1,two/x,{0}0\n"
    for seed in (3, 4):
        folders[seed].folder.mkdir()
        (folders[seed].folder / "metrics.csv").write_text(logged.format(seed))
    monkeypatch.setattr(
        "normexp.claims.evidence.disk.read_summary", lambda folder: SUMMARY | {"convergence": {}}
    )
    found = disk.read(grid)
    assert found["seed"].tolist() == [3, 4]
    assert found[["answers", "late_gain"]].isna().all(axis=None)
    assert found[[*metrics.values()]].to_numpy().tolist() == [[3.0, 30.0], [4.0, 40.0]]


def test_a_metric_that_no_run_will_have_stops_before_the_first_run(tmp_path):
    claim = altered(CLAIMS["P14"], metric="test/errors")
    with pytest.raises(ValueError, match="claim=P14: metric=test/errors: no run will have it"):
        DiskRuns(claim, tmp_path).specs(grid_of(claim).iloc[:1])


def test_cells_are_completed_where_runs_are_trained():
    cell = BankCell(
        name="x", overrides=("model=mlp", "data=digits"), labels={"model": "MLP", "data": "digits"}
    )
    claim = altered(CLAIMS["P14"], cells={"x": cell})
    (found,) = complete_cells(claim).cells.values()
    assert (found.test, len(found.rates), found.is_complete) == ("test set", 5, True)
    words = ("model=mlp", "data=digits", "data.split_seed=${seed}")
    again = altered(claim, cells={"x": BankCell(name="x", overrides=words, labels=cell.labels)})
    assert complete_cells(again).cells["x"].test == "cut again"
    law = altered(claim, evidence="law")
    assert complete_cells(law) is law


def test_all_steps_count_where_it_was_never_reached_and_nothing_does_where_nobody_looked():
    runs = pd.DataFrame({"steps": [60, 60], "steps_to_0.9": [math.inf, 40.0]})
    assert column_of("convergence/steps_to_0.9", runs).tolist() == [60, 40]
    with pytest.raises(
        ValueError, match=r"steps_to_0.9: 1 of 2 runs did not look for this target; evidence=none"
    ):
        column_of("convergence/steps_to_0.9", runs.assign(**{"steps_to_0.9": [math.nan, 40.0]}))


def test_what_a_run_did_not_look_for_is_in_its_validations(tmp_path):
    (tmp_path / "metrics.csv").write_text(VALIDATIONS)
    assert [steps_to(tmp_path, target) for target in (0.3, 0.4, 0.7, 0.9)] == [20, 20, 40, math.inf]
    other = tmp_path / "other"
    other.mkdir()
    (other / "metrics.csv").write_text("step,epoch,seconds,metric,value\n1,1,1,lr,1\n")
    with pytest.raises(ValueError, match=r"steps_to_0\.9: .* wrote down no validation"):
        steps_to(other, 0.9)


@pytest.mark.parametrize(
    "word", ["accuracies=[0.5]", "log_every_n_steps=1", "monitor=full", "monitor.a.every_n_steps=2"]
)
def test_runs_that_record_something_else_lie_in_a_folder_of_their_own(word, tmp_path):
    plain, other = (
        set(overrides_of("\n".join(words), tmp_path)) for words in (["norm=none"], ["norm=none", word])
    )
    assert "name=runs" in plain
    assert not any(part == "name=runs" for part in other)


def test_a_kept_run_counts_only_where_it_recorded_what_a_claim_reads(tmp_path, monkeypatch):
    claim = altered(CLAIMS["P14"], metric="logged/turn/*", arms={"a": [], "b": []}, manipulation=None)
    grid = pd.DataFrame({"arm": ["a"] * 3, "overrides": ["x", "y", "z"], "seed": 0, "lr": math.nan})
    runs = grid.drop(columns="arm").assign(status=["completed", "completed", "diverged"], asked_by="P01:1")
    monkeypatch.setattr(
        table, "runs_in", lambda evidence: runs.assign(**{"logged/turn/*": [1.0, math.nan, math.nan]})
    )
    assert read(tmp_path, grid, claim)["overrides"].tolist() == ["x", "z"]
    monkeypatch.setattr(table, "runs_in", lambda evidence: runs)
    assert read(tmp_path, grid, claim)["overrides"].tolist() == ["z"]
    assert read(tmp_path, grid, altered(claim, metric="test/error"))["overrides"].tolist() == ["x", "y", "z"]


def test_a_setting_without_facts_is_named_before_runs_are_told_apart():
    cell = BankCell(name="bare", overrides=("model=mlp", "data=digits"))
    with pytest.raises(ValueError, match=r"setting=bare: its facts are not known; write facts: \{validation"):
        failed_runs(pd.DataFrame({"val_accuracy": [0.9], "status": ["completed"]}), cell)
