"""Folders as they are while others work in them: half written, deleted meanwhile, damaged."""

import shutil
from pathlib import Path

import pytest
from fabricated import STEPS, edit_summary, write_run, write_study

from normexp.runs import load, load_summaries
from normexp.runs import table as runs_table


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study", ("none", "batchnorm"), (8,), seeds=2)


def one(study: Path) -> Path:
    return next(study.glob("mlp/none-bs8-s0-*"))


def test_run_being_written_is_not_yet_in_the_table(study):
    folder = write_run(study, "layernorm", 8, 0)
    (folder / "summary.json").rename(folder / "tmp4xq.tmp")  # as a summary is before it is complete
    with (folder / "metrics.csv").open("a") as file:
        file.write("220,11.0,2.2,train/lo")
    assert len(load_summaries(study)) == 4
    assert set(load(study)["norm"]) == {"none", "batchnorm"}


def test_run_that_was_computed_anew_is_read_anew(study):
    before = load(study, metrics=["train/loss"])
    path = one(study) / "metrics.csv"
    path.write_text(path.read_text().replace("train/loss,0.8\n", "train/loss,7.5\n"))
    edit_summary(one(study), seconds=9.0)
    after = load(study, metrics=["train/loss"])
    assert before["value"].max() == 0.8
    assert after[after["run"].astype(str) == one(study).relative_to(study).as_posix()]["value"].max() == 7.5
    assert 9.0 in set(load_summaries(study)["seconds"])


def test_folder_deleted_between_finding_and_reading_is_no_run(study, monkeypatch):
    find_runs, lost = runs_table.find_runs, [one(study)]

    def find_and_lose(path):
        found = find_runs(path)
        for folder in lost:
            shutil.rmtree(folder)
        return found

    monkeypatch.setattr(runs_table, "find_runs", find_and_lose)
    assert len(load_summaries(study)) == 3
    lost[:] = [study / "mlp"]
    with pytest.raises(ValueError, match="its runs were deleted while they were read"):
        load_summaries(study)


def without_last_step(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.startswith(f"{STEPS[-1]},"))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("metrics.csv", without_last_step, "ends at step 180, but the run took 200 steps"),
        ("metrics.csv", lambda text: text.splitlines(True)[0], "ends at step -1, but the run took 200 steps"),
        ("metrics.csv", lambda text: text.replace("0,", "zero,", 1), "damaged"),
        ("metrics.csv", lambda text: text + "1,1,1,a\n1,1,1,a,1,1\n", "damaged"),
        ("metrics.csv", lambda text: "a,b\n1,2\n", "written by another version"),
        ("metrics.csv", lambda text: text[:-5], r"damaged \(cut off\)"),
        ("summary.json", lambda text: '{"versions": {"normexp": "0.0.1"}}', r"damaged \(status: is missing"),
    ],
)
def test_damage_is_one_line_that_names_the_file(study, file, change, message):
    path = one(study) / file
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message) as caught:
        load(study)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_absent_or_no_file_is_one_line(study):
    (one(study) / "metrics.csv").unlink()
    with pytest.raises(ValueError, match="No such file or directory, though the run has a summary"):
        load(study)
    (one(study) / "metrics.csv").mkdir()
    (one(study) / "summary.json").unlink()
    assert len(load_summaries(study)) == 3


def test_some_metrics_are_read_alone(study):
    write_run(study, "groupnorm", 8, 0, examples=20)
    some = load(study, metrics=["val/accuracy"])
    assert set(some["metric"]) == {"val/accuracy"}
    assert len(some) == 5 * len(STEPS)
