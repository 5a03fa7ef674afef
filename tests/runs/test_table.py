"""The table of runs: identity from summaries, a gap is an error, every mistake one line."""

import shutil

import pandas as pd
import pytest
from fabricated import LAYERS, STEPS, edit_summary, write_run, write_study
from refusals import refused

from normexp.runs import load, load_summaries
from normexp.runs.columns import DERIVED, RESULTS, flatten, identity_columns, networks, repeating, varying
from normexp.runs.summary import flat, read_summary

GRID = {"norm": ["none", "batchnorm"], "batch_size": [2, 8], "seed": range(2)}


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study", GRID["norm"], GRID["batch_size"], seeds=2)


def test_summaries_hold_one_row_a_run_with_identity_results_and_norm_parameters(study):
    table = load_summaries(study)
    assert len(table) == 8
    row = table[(table.norm == "batchnorm") & (table.batch_size == 2) & (table.seed == 1)].iloc[0]
    assert row["model"] == "mlp"
    assert row["norm.correction"] == 0
    assert row["convergence.steps_to_0.5"] > 0
    assert row["execution.device"] == "cpu"
    assert table.loc[table.norm == "none", "norm.correction"].isna().all()  # none has no such option
    assert table["convergence.steps_to_0.9"].isna().all()  # never reached is a gap, not a number


def test_table_holds_every_metric_at_every_step_of_every_run(study):
    table = load(study)
    per_run = table.groupby("run", observed=True).size()
    assert set(per_run) == {len(STEPS) * (4 + 5 * len(LAYERS))}
    one = table[(table.norm == "none") & (table.batch_size == 8) & (table.seed == 0)]
    curve = one[one.metric == "val/accuracy"]
    assert list(curve.step) == list(STEPS)
    assert list(curve.samples) == [8 * step for step in STEPS]
    assert curve.value.iloc[0] == pytest.approx(0.1)


def test_what_tells_runs_apart_is_what_was_chosen_and_no_result(tmp_path):
    summary = read_summary(write_run(tmp_path, "batchnorm", 8, 0))
    chosen = summary["choices"].keys() | flat(summary["config"], targets=True).keys()
    row = flatten(summary, "a run")
    # the contents of the data, and how many processes share a batch
    assert set(identity_columns(pd.DataFrame([row]))) <= chosen | {"fingerprint", "processes"}
    assert {*RESULTS, *DERIVED} <= row.keys()


def test_identity_comes_from_the_summary_and_not_from_the_folder(study):
    folder = next(study.glob("mlp/none-bs2-s0-*"))
    folder.rename(study / "mlp" / "layernorm-bs999-s7-deadbeef")
    assert set(load_summaries(study).norm) == {"none", "batchnorm"}


def test_column_appears_where_runs_differ(tmp_path):
    for depth in (2, 4):
        write_run(tmp_path, "none", 8, 0, **{"model.depth": depth})
    assert set(load(tmp_path, metrics=["val/accuracy"])["model.depth"]) == {2, 4}


def test_column_is_left_out_where_it_says_what_another_does():
    rows = {"lr": [0.1, 0.2], "optimizer.lr": [0.1, None], "batch_size": [8, 8], "data.batch_size": [8, 4]}
    assert repeating(pd.DataFrame(rows)) == ["optimizer.lr"]
    classes = {"norm": [*"aab"], "norm._target_": [*"AAB"], "data": [*"ddd"], "data._target_": [*"DDE"]}
    classes |= {"of_all._target_": [*"OOO"], "of_some._target_": [*"OOP"]}  # of no choice
    assert repeating(pd.DataFrame(classes)) == ["norm._target_", "of_all._target_"]


def test_epochs_tell_only_runs_without_a_number_of_steps_apart():
    rows = {"max_epochs": [1, 2, 3], "max_steps": [5, 5, None], "lr": [0.1, 0.2, 0.1]}
    assert varying(pd.DataFrame(rows)) == ["max_steps", "lr"]


VARYING = [
    ("norm.eps", [1, 1.0], False), ("norm.affine", [1, True], True), ("norm.eps", [None, float("nan")], False),
    ("trainer", ["cpu", "auto"], False), ("trainer.precision", ["32-true", "16-mixed"], True),
    ("status", [*"ab"], False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "tells"), VARYING)
def test_values_that_are_not_one_tell_runs_apart_where_they_say_what_a_run_is(name, values, tells):
    assert varying(pd.DataFrame({name: pd.Series(values, dtype=object)})) == [name] * tells


def test_networks_are_named_by_their_model_and_what_it_takes_of_others():
    rows = {"model": ["mlp", "timm"], "model.name": [None, "vit"]}
    assert networks(pd.DataFrame(rows)).tolist() == ["mlp", "timm vit"]


def test_grid_selects_its_cells_in_its_order(study):
    table = load_summaries(study, {"norm": ["batchnorm"], "batch_size": [8, 2], "seed": [1, 0]})
    cells = table[["batch_size", "seed"]].to_numpy().tolist()
    assert cells == [[8, 1], [8, 0], [2, 1], [2, 0]]
    alone = {"norm": "batchnorm", "batch_size": 2, "seed": [1, 0]}
    assert load_summaries(study, alone).equals(table[2:].reset_index(drop=True))
    assert load(study, metrics="val/accuracy").equals(load(study, metrics=["val/accuracy"]))
    with refused("grid: seed has no value; give it one or more"):
        load_summaries(study, {**alone, "seed": []})


def test_missing_cells_are_named(study):
    shutil.rmtree(next(study.glob("mlp/none-bs2-s1-*")))
    with refused("1 of 8 cells have no finished run: norm=none batch_size=2 seed=1;"):
        load(study, GRID)
    with refused("13 of 20 cells have no .* norm=none batch_size=8 seed=2; and 8 more; start the same"):
        load(study, {**GRID, "seed": range(5)})
    with refused("grid: depth is no column of the table; the columns are run, "):
        load(study, {**GRID, "depth": [2]})


def test_cell_with_two_runs_names_what_differs(study):
    write_run(study, "none", 2, 0, lr=0.3)
    with refused("cell norm=none batch_size=2 seed=0 holds 2 runs, which differ in lr"):
        load_summaries(study, GRID)


def test_cell_with_a_copy_says_so(study):
    shutil.copytree(next(study.glob("mlp/none-bs2-s0-*")), study / "copy")
    with refused("holds 2 runs, which are the same run; remove all but one$"):
        load_summaries(study, GRID)


def test_diverged_run_stays_in_the_table(study):
    write_run(study, "none", 2, 0, status="diverged", lr=10.0)
    table = load_summaries(study)
    assert list(table[table.lr == 10.0].status) == ["diverged"]
    assert table[table.lr == 10.0]["test/accuracy"].isna().all()


def test_unknown_metric_gets_the_nearest_names(study):
    with refused("metric=val/acc: recorded by none of these runs; the nearest are val/acc"):
        load(study, metrics=["val/acc"])


def test_path_without_runs_says_so(tmp_path):
    with refused("no such folder"):
        load(tmp_path / "nowhere")
    with refused(r"holds no finished run$"):
        load_summaries(tmp_path)
    folder = write_run(tmp_path, "none", 2, 0)
    (folder / "summary.json").unlink()
    with refused("1 unfinished: the same command resumes them"):
        load_summaries(tmp_path)


def test_run_of_an_older_version_is_read_when_it_has_what_is_needed(study):
    edit_summary(next(study.glob("mlp/none-bs2-s0-*")), versions={"normexp": "0.0.9"}, execution={})
    table = load_summaries(study)
    assert set(table["versions.normexp"]) == {"0.1.0", "0.0.9"}
    assert set(table["processes"]) == set(table["numerics"]) == {1}
