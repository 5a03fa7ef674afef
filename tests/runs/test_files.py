"""A file is replaced whole or not at all."""

import os

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


def test_what_killed_writers_left_goes_and_nothing_else(tmp_path):
    for name in (".last.ckpt.7.new", "last.ckpt", "mine.new", ".hidden"):
        (tmp_path / name).write_text("")
    remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "last.ckpt", "mine.new"]
