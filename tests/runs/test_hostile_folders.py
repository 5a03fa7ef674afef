"""Folders as they are while others work in them: half written, deleted meanwhile, damaged."""

import json
import os
from pathlib import Path

import pytest
from fabricated import STEPS, edit_summary, write_run, write_study
from refusals import refused

from normexp.cli.report import runs
from normexp.compare.logged import of_folder
from normexp.report.study import open_study
from normexp.runs import load, load_summaries
from normexp.runs.table import find_runs, open_runs


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study", ("none", "batchnorm"), (8,), seeds=2)


def one(study: Path) -> Path:
    return next(study.glob("mlp/none-bs8-s0-*"))


def test_run_being_written_is_not_yet_in_the_table(study, capsys):
    folder = write_run(study, "layernorm", 8, 0)
    (folder / "summary.json").rename(folder / "tmp4xq.tmp")  # as a summary is before it is complete
    with (folder / "metrics.csv").open("a") as file:
        file.write("220,11.0,2.2,train/lo")
    assert len(load_summaries(study)) == 4
    assert set(load(study)["norm"]) == {"none", "batchnorm"}
    runs(study)
    assert capsys.readouterr().err == "1 run not finished\n"


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("metrics.csv", lambda text: text.replace("0,", "zero,", 1), "damaged"),
        ("metrics.csv", lambda text: text + "1,1,1,a\n1,1,1,a,1,1\n", "damaged"),
        ("metrics.csv", lambda text: "a,b\n1,2\n", "damaged"),
        (
            "summary.json",
            lambda text: '{"versions": {"normexp": "0.0.1"}}',
            r"damaged \(lacks choices, config",
        ),
    ],
)
def test_damage_is_one_line_that_names_the_file(study, file, change, message):
    path = one(study) / file
    path.write_text(change(path.read_text()))
    with refused(message) as caught:
        load(study)
    assert str(path) in str(caught.value)


def test_a_file_that_is_absent_or_no_file_is_one_line(study):
    (one(study) / "metrics.csv").unlink()
    with refused("damaged"):
        load(study)
    (one(study) / "metrics.csv").mkdir()
    (one(study) / "summary.json").unlink()
    assert len(load_summaries(study)) == 3


def test_some_metrics_are_read_alone(study):
    write_run(study, "groupnorm", 8, 0, examples=20)
    some = load(study, metrics=["val/accuracy"])
    assert set(some["metric"]) == {"val/accuracy"}
    assert len(some) == 5 * len(STEPS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metrics": None}, "metrics has no keys"),
        ({"config": []}, "config has no keys"),
        ({"metrics": {"test/accuracy": "high"}}, "test/accuracy is no number"),
        ({"hash": None, "versions": 3}, "versions has no keys"),
    ],
)
def test_a_damaged_run_is_named_and_the_others_are_listed(study, capsys, change, why):
    bad, *others = sorted(path for path in study.glob("mlp/*"))
    edit_summary(bad, **change)
    with refused(rf"damaged \({why}"):
        load_summaries(study)
    runs(study)
    told = capsys.readouterr()
    assert bad.name not in told.out
    assert all(other.name in told.out for other in others)
    assert told.err.startswith(f"{bad}/summary.json: damaged ({why}); remove the folder {bad}")


def test_runs_in_a_hidden_folder_or_in_another_run_are_not_searched(study):
    for place in (study / ".copies", one(study) / "copies"):
        write_run(place, "layernorm", 8, 0)
    assert set(load_summaries(study)["norm"]) == {"none", "batchnorm"}


def test_where_no_run_can_be_read_the_first_damage_is_said(study):
    for folder in study.glob("mlp/*"):
        edit_summary(folder, config=[])
    with refused(r"holds no run that can be read; .*batchnorm-bs8-s0-.* damaged \(config has no keys"):
        load_summaries(study / "mlp", skipped=[])


def test_runs_without_a_result_are_those_of_the_latest_launch_and_single_ones(study):
    for day, error in enumerate(("boom", "bang")):
        states = (("a", "failed"), ("b", "skipped"), ("c", "failed"))
        cells = [
            {"run": f"mlp/{key}", "hash": key, "state": state, "error": error, "log": None}
            for key, state in states
        ]
        (study / ".sweeps" / f"{day}").mkdir(parents=True)
        (study / ".sweeps" / f"{day}" / "sweep.json").write_text(json.dumps({"cells": cells}))
    (one(study) / "summary.json").unlink()
    failed, single = open_runs(study, {"c"}, find_runs(study)[1])
    assert failed == {"run": "mlp/a", "state": "failed", "why": "bang", "log": ""}
    assert single == {"run": f"mlp/{one(study).name}", "state": "unfinished", "why": "", "log": ""}


@pytest.mark.parametrize(
    "look", [runs, lambda folder: of_folder(folder, None), lambda folder: open_study(folder).open_runs]
)
def test_a_command_searches_a_folder_once(study, monkeypatch, look):
    searched, walk = [], os.walk
    monkeypatch.setattr(os, "walk", lambda root: searched.append(Path(root)) or walk(root))
    look(study)
    assert searched == [study]


def test_runs_without_a_test_are_not_tested(study, capsys):
    for folder in study.glob("mlp/*"):
        edit_summary(folder, metrics={"train/loss": 1.0})
    runs(study)
    assert "not tested" in capsys.readouterr().out
