"""The rows of many runs on disk: equal to those that are read anew, and read anew where a run has changed."""

import json
import os

import pandas as pd
import pytest
from fabricated import edit_summary, write_run, write_study
from pandas.testing import assert_frame_equal

from normexp.runs import load, load_summaries, stored_columns
from normexp.runs.stored_columns import STORED


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_columns, "MANY", 1)
    return write_study(tmp_path, ("none", "batchnorm"), (2, 8), 2)


@pytest.fixture
def read(monkeypatch):
    """The folders that were read since the last look."""
    from normexp.runs import table

    found, own = [], table.read_checked
    monkeypatch.setattr(table, "read_checked", lambda folder: found.append(folder) or own(folder))
    return found


def anew(study, monkeypatch) -> pd.DataFrame:
    with monkeypatch.context() as patch:
        patch.setattr(stored_columns, "MANY", 10**9)
        return load_summaries(study)


def test_stored_rows_equal_those_that_are_read_and_a_run_is_read_once(study, read, monkeypatch):
    first, second = load_summaries(study), load_summaries(study)
    assert len(read) == len(first) == 8
    assert_frame_equal(first, second)
    assert_frame_equal(first, anew(study, monkeypatch))


def test_runs_that_changed_are_new_or_are_gone_are_seen(study, read, monkeypatch):
    before = load_summaries(study)
    read.clear()
    changed, gone = (study / run for run in before["run"].iloc[:2])
    edit_summary(changed, seconds=123.0)
    for path in sorted(gone.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    new = write_run(study, "layernorm", 2, 0, **{"norm.other": 1})
    after = load_summaries(study)
    assert set(read) == {changed, new}
    assert after.set_index("run").loc[before["run"].iloc[0], "seconds"] == 123.0
    assert_frame_equal(after, anew(study, monkeypatch), check_like=True)


def test_damaged_runs_are_refused_as_without_it_and_a_damaged_file_is_written_anew(study, monkeypatch):
    first = load_summaries(study)
    (study / STORED).write_bytes((study / STORED).read_bytes()[:200])
    assert_frame_equal(load_summaries(study), first)
    run = study / first["run"].iloc[0]
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"seconds": 1.0}))
    with pytest.raises(ValueError, match="not as the run wrote it"):
        load_summaries(study)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # pytest's workers have a second thread
def test_several_processes_read_what_one_reads_and_refuse_the_same(study, monkeypatch):
    first = anew(study, monkeypatch)
    monkeypatch.setattr("normexp.fork_map.can_fork", lambda: True)
    monkeypatch.setattr(stored_columns, "PART", 3)
    monkeypatch.setattr(stored_columns, "cores", lambda: 2)
    assert_frame_equal(load_summaries(study), first)

    def process_of(folder):
        return {"run": folder.name, "process": os.getpid()}

    def no_run(folder):
        raise OSError("a folder that is no run's")

    folders = [study / run for run in first["run"]]
    table = stored_columns.stored_table(
        study / "other", [study / "other" / path.name for path in folders], process_of
    )
    assert table["run"].tolist() == [path.name for path in folders]
    assert os.getpid() not in set(table["process"])
    with pytest.raises(OSError, match="a folder that is no run's"):
        stored_columns.stored_table(
            study / "other", [study / "other" / path.name for path in folders], no_run
        )
    (study / first["run"].iloc[-1] / "metrics.csv").write_text("cut")
    with pytest.raises(ValueError, match=r"metrics\.csv: the columns are not step"):
        load_summaries(study)


def test_equal_values_of_other_types_stay_apart_and_absent_from_null(tmp_path):
    rows = [{"a": 1, "b": "x"}, {"a": True, "c": None}, {"a": 1.0, "b": None, "c": 2.5}]
    folders = [tmp_path / str(place) for place in range(3)]
    by_folder = dict(zip(folders, rows, strict=True))
    for row_of in (by_folder.get, by_folder.clear):  # the second time nothing is read
        table = stored_columns.stored_table(tmp_path, folders, row_of)
        assert_frame_equal(table, pd.DataFrame(rows))
        assert [type(value) for value in table["a"]] == [int, bool, float]


def test_files_that_are_parsed_in_parts_give_the_same_table(study, monkeypatch):
    whole, some = load(study), load(study, metrics=["val/accuracy", "lr"])
    monkeypatch.setattr("normexp.runs.read.TOGETHER", 3)
    assert_frame_equal(load(study), whole)
    parts = load(study, metrics=["val/accuracy", "lr"])
    assert_frame_equal(parts, some)
    with pytest.raises(ValueError, match="metric=val/acuracy: recorded by none"):
        load(study, metrics=["val/acuracy"])
