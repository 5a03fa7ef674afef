"""What a study compares: its arms, its factor, its selection of runs, and its refusals."""

import json
import shutil

import pytest
from fabricated import edit_summary, write_run, write_study

from normexp.report.study import open_study
from normexp.report.tables import choose_baseline, comparison, markdown
from normexp.report.unfinished_runs import open_runs
from normexp.runs import load


def test_factor_is_the_batch_size_and_what_a_norm_decides_makes_no_arm(tmp_path):
    study = open_study(write_study(tmp_path, ("layernorm", "none", "batchnorm"), (2, 8), seeds=2))
    assert study.x == "batch_size"
    assert study.levels == [2, 8]
    assert study.arms == ["none", "batchnorm", "layernorm"]  # norm.eps differs with the norm, not within it


def test_further_choices_make_arms_so_that_nothing_is_pooled(tmp_path):
    for depth in (2, 4):
        write_study(tmp_path, ("none",), (2, 8), seeds=2, **{"model.depth": depth})
    study = open_study(tmp_path)
    assert study.arms == ["none · depth 2", "none · depth 4"]
    assert len(study.chosen) == 8


def test_each_point_takes_the_learning_rate_best_on_validation(tmp_path):
    for lr in (0.01, 0.1, 1.0):
        write_study(tmp_path, ("none", "batchnorm"), (2, 8), seeds=2, lr=lr)
    study = open_study(tmp_path)
    assert study.rate_varies
    assert set(study.chosen["lr"]) == {0.1}
    assert len(study.chosen) == 8


def test_learning_rate_with_diverged_runs_is_not_chosen(tmp_path):
    write_study(tmp_path, ("none",), (8, 32), seeds=2, lr=0.03)
    for batch_size in (8, 32):
        write_run(tmp_path, "none", batch_size, 0, lr=0.1)
        write_run(tmp_path, "none", batch_size, 1, lr=0.1, status="diverged")
    assert set(open_study(tmp_path).chosen["lr"]) == {0.03}


def test_table_pairs_by_seed_and_bold_needs_the_interval(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "batchnorm"), (2, 128), seeds=5))
    table = comparison(study, choose_baseline(study, None)).set_index(["arm", "level"])
    # the fabricated runs share their noise: paired differences are exact, although the intervals of the means overlap
    row = table.loc[("batchnorm", 128)]
    assert row["difference"] == pytest.approx((0.08 - 0.25 / 128) * 0.9817, abs=1e-3)
    assert row["difference_low"] == pytest.approx(row["difference"], abs=1e-6)
    assert row["best"]
    assert table.loc[("none", 2)]["best"]
    assert "**91.0 ± 1.0**" in markdown(study, table.reset_index(), "none")


def test_diverged_runs_are_counted_not_dropped_and_never_best(tmp_path):
    write_study(tmp_path, ("none", "batchnorm"), (128,), seeds=4)
    write_run(tmp_path, "batchnorm", 128, 4, status="diverged")
    write_run(tmp_path, "none", 128, 4)
    study = open_study(tmp_path)
    row = comparison(study, "none").set_index("arm").loc["batchnorm"]
    assert (row["runs"], row["diverged"], row["n"], row["pairs"]) == (5, 1, 4, 4)
    assert not row["best"]
    assert "(1 of 5 diverged)" in markdown(study, comparison(study, "none"), "none")


def test_runs_computed_in_different_ways_are_not_paired(tmp_path):
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=3)
    edit_summary(
        next(tmp_path.glob("mlp/none-bs8-s0-*")),
        execution={"mode": "replica", "device": "cpu", "devices": 1, "precision": "32-true", "threads": 1},
    )
    row = comparison(open_study(tmp_path), "none").set_index("arm").loc["batchnorm"]
    assert (row["n"], row["pairs"]) == (3, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "other"}, "holds runs of 2 studies, other, study; name the folder of one of them"),
        ({"metric": "test/f1"}, "metric=test/f1: recorded by none of these runs; the nearest are"),
    ],
)
def test_bad_input_is_one_line(tmp_path, changes, message):
    write_study(tmp_path, ("none",), (8,), seeds=2)
    metric = changes.pop("metric", "test/accuracy")
    if changes:
        write_run(tmp_path, "none", 32, 0, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        open_study(tmp_path, metric)
    assert "\n" not in str(caught.value)


def test_a_run_that_lies_there_twice_does_not_count_twice(tmp_path):
    write_study(tmp_path, ("none", "layernorm"), (8,), seeds=3)
    copied = next(tmp_path.glob("mlp/none-bs8-s1-*"))
    shutil.copytree(copied, tmp_path / "copy")
    with pytest.raises(
        ValueError, match=r"(copy|none-bs8-s1-\w+) are the same run, and its seed would count twice"
    ):
        open_study(tmp_path)


def test_samples_are_those_of_all_accumulated_batches(tmp_path):
    write_study(tmp_path, ("none",), (8,), seeds=2)
    one = next(tmp_path.glob("mlp/none-bs8-s1-*"))
    settings = json.loads((one / "summary.json").read_text())["config"]
    settings["trainer"] = {**settings["trainer"], "accumulate_grad_batches": 3}
    edit_summary(one, config=settings)
    for table in (open_study(tmp_path).metrics, load(tmp_path)):
        per_step = table[table["step"] > 0].assign(each=lambda rows: rows["samples"] / rows["step"])
        assert per_step.groupby("seed", observed=True)["each"].unique().map(list).to_dict() == {
            0: [8],
            1: [24],
        }


def test_unknown_baseline_lists_the_arms(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "layernorm"), (8,), seeds=2))
    with pytest.raises(ValueError, match="baseline=bn: no arm of this study; choose from none, layernorm"):
        choose_baseline(study, "bn")


def test_begun_and_failed_runs_are_listed(tmp_path):
    import json

    write_study(tmp_path, ("none",), (8,), seeds=2)
    (next(tmp_path.glob("mlp/none-bs8-s1-*")) / "summary.json").unlink()
    cell = {"cell": "lr=9", "run": "mlp/x", "folder": "x", "hash": "0", "seconds": 1.0, "log": "x.log"}
    (tmp_path / ".sweeps" / "1").mkdir(parents=True)
    sweep = {"command": "python train.py -m lr=9", "cells": [{**cell, "state": "failed", "error": "boom"}]}
    (tmp_path / ".sweeps" / "1" / "sweep.json").write_text(json.dumps(sweep))
    study = open_study(tmp_path)
    rows = open_runs(tmp_path, set(study.summaries["hash"]))
    assert [(row["state"], row["why"]) for row in rows] == [("unfinished", ""), ("failed", "boom")]
    assert study.command == "python train.py -m lr=9"
