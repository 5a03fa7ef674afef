"""Two launches of the same runs: each run is done once, by whoever comes first, and both end well."""

import os
import subprocess
import sys

import pytest
from fabricated import write_run
from filelock import FileLock

from normexp.sweeps import engine as module
from normexp.sweeps.cell import Elsewhere, elsewhere
from normexp.sweeps.engine import JobQueue
from normexp.training.folder import in_use

N, T, F = Elsewhere.NOTHING, Elsewhere.TRAINING, Elsewhere.FINISHED


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.0)


def test_jobs_that_others_are_at_come_last_and_need_no_start_once_done():
    state = {"a": T, "b": N, "c": F, "d": N}
    turns = JobQueue("abcd", state.__getitem__)
    assert turns.take() == ("b", N)
    assert turns.busy == ["a"]
    assert [turns.take(), turns.take(), turns.take()] == [("c", F), ("d", N), None]
    assert (turns.busy, bool(turns)) == (["a"], True)
    state["a"] = F
    assert (turns.take(), turns.busy, bool(turns)) == (("a", F), [], False)


def test_job_whose_other_launch_died_is_done_here():
    state = {"a": T}
    turns = JobQueue("a", state.__getitem__)
    assert turns.take() is None
    state["a"] = N
    assert turns.take() == ("a", N)


def test_next_look_at_what_others_do_waits(monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 1000.0)
    looked = []
    turns = JobQueue("ab", lambda job: looked.append(job) or T)
    assert [turns.take() for _ in range(5)] == [None] * 5
    assert looked == ["a", "b"]


def test_what_others_do_is_read_from_the_folders(tmp_path):
    done = write_run(tmp_path, "none", 2, 0)
    open_, locked = tmp_path / "open", tmp_path / "locked"
    for folder in (open_, locked):
        folder.mkdir()
    with FileLock(locked / ".lock"):
        assert [elsewhere([folder]) for folder in (done, open_, locked)] == [F, N, T]
        assert elsewhere([done, open_]) is N
        assert elsewhere([done, locked]) is T
        assert (locked / ".lock").exists()
    assert elsewhere([tmp_path / "not yet there"]) is N
    assert not (tmp_path / "not yet there").exists()


def test_damaged_run_is_left_to_the_job_which_says_what_is_wrong(tmp_path):
    (tmp_path / "summary.json").write_text("{")
    assert elsewhere([tmp_path]) is N


def test_lock_of_a_killed_process_is_no_use_and_goes(tmp_path):
    code = (
        "import os, filelock; lock = filelock.FileLock(os.sys.argv[1]); lock.acquire(); print('has it', flush=True);"
        "input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / ".lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "has it\n"
    assert in_use(tmp_path)
    process.kill()
    process.communicate()
    assert (tmp_path / ".lock").exists()
    assert not in_use(tmp_path)
    assert not (tmp_path / ".lock").exists()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_may_not_be_written_is_nobodys(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / ".lock").chmod(0o400)
    tmp_path.chmod(0o500)
    assert not in_use(tmp_path)
    tmp_path.chmod(0o700)
