"""A file is replaced whole or not at all, and what it refers to is on the disk before it."""

import os

import pytest

from normexp.runs.files import atomic_write, remove_unfinished


@pytest.fixture
def calls(monkeypatch):
    """What goes to the disk, in its order: (fsync, file) and (replace, file)."""
    found = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        found.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def replaced(source, target):
        found.append(("replace", os.path.basename(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")
def test_content_and_what_it_refers_to_reach_the_disk_before_the_name_does(tmp_path, calls):
    (tmp_path / "rows").write_text("1\n")
    with atomic_write(tmp_path / "file", before=[tmp_path / "rows"]) as file:
        file.write(b"content")
    beside = f".file.{os.getpid()}.new"
    assert sorted(calls[:2]) == [("fsync", beside), ("fsync", "rows")]
    assert calls[2:] == [("replace", "file"), ("fsync", tmp_path.name)]
    assert (tmp_path / "file").read_bytes() == b"content"


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
