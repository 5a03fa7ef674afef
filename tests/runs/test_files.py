"""A file is replaced whole or not at all."""

import os
import stat

import pytest

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
