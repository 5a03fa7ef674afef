"""A file is replaced whole or not at all; `summary.json` is one."""

import json
import os
import stat

import pytest
from fabricated import write_run
from refusals import refused

from normexp.runs import read_summary, write_summary
from normexp.runs.files import atomic_write, remove_unfinished


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_error_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path, monkeypatch, where):
    (tmp_path / "file").write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    def write():
        with atomic_write(tmp_path / "file") as file:
            file.write(b"half")
            if where == "write":
                full()

    if where != "write":
        monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space"):
        write()
    monkeypatch.undo()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "before"}


def test_the_folder_is_flushed_after_the_rename(tmp_path, monkeypatch):
    """Before, a power cut could bring the old file back, or none."""
    done, real = [], {name: getattr(os, name) for name in ("fsync", "replace")}

    def fsync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        real["fsync"](descriptor)

    def replace(*paths):
        done.append("rename")
        real["replace"](*paths)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with atomic_write(tmp_path / "file") as file:
        file.write(b"new")
    assert done == ["file", "rename", "folder"]


def test_what_killed_writers_left_goes_and_nothing_else(tmp_path):
    for name in (".last.ckpt.7.new", "last.ckpt", "mine.new", ".hidden"):
        (tmp_path / name).write_text("")
    remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "last.ckpt", "mine.new"]


def test_summary_reads_back_and_leaves_no_other_file(tmp_path):
    whole = read_summary(write_run(tmp_path / "run", "none", 8, 0))
    (tmp_path / "new").mkdir()
    assert read_summary(tmp_path / "new") is None
    write_summary(tmp_path / "new", whole)
    assert read_summary(tmp_path / "new") == whole
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["summary.json"]


def test_values_that_are_not_finite_become_null_in_strict_json(tmp_path):
    write_summary(tmp_path, {"status": "diverged", "metrics": {"a": float("nan"), "b": [float("inf"), 1.0]}})
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["metrics"] == {"a": None, "b": [None, 1.0]}


@pytest.mark.parametrize("text", ["", '{"status": "comp', "[]", "{}", "\x00\x01", "[" * 10**6])
def test_damaged_summary_is_one_line_with_file_and_remedy(tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    with refused(r"damaged \(.+\); remove the folder") as caught:
        read_summary(tmp_path)
    assert str(tmp_path / "summary.json") in str(caught.value)
