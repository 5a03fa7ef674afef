"""A run records the commit of its code, and whether the code was as committed."""

import contextlib
import subprocess
from functools import partial
from pathlib import Path

import pytest
from repository import git

from normexp.machine import _checkout, checkout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A checkout of one commit; `repository(*arguments)` runs git in it."""

    own = partial(git, tmp_path)
    own("init", "-q")
    (tmp_path / "code.py").write_text("x = 1\n")
    (tmp_path / "notes.txt").write_text("a\n")
    own("add", ".")
    own("commit", "-q", "-m", "first")
    return own


def found(folder: Path):
    _checkout.cache_clear()  # a process asks once
    with contextlib.chdir(folder):
        return checkout()


def test_commit_and_whether_the_code_is_as_committed(repository, tmp_path):
    commit = repository("rev-parse", "HEAD").strip()
    assert found(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "notes.txt").write_text("b\n")  # no code
    assert found(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "code.py").write_text("x = 2\n")
    assert found(tmp_path) == {"commit": commit, "dirty": True}
    repository("checkout", "code.py")
    (tmp_path / "new.py").write_text("")
    assert found(tmp_path) == {"commit": commit, "dirty": True}


def test_nothing_where_there_is_no_repository_commit_or_git(repository, tmp_path, monkeypatch):
    (tmp_path / "installed").mkdir()
    commit = repository("rev-parse", "HEAD").strip()
    below = {"commit": commit, "dirty": False}  # of the repository above
    assert found(tmp_path / "installed") == below
    empty = tmp_path / "empty"
    subprocess.run(["git", "init", "-q", empty], check=True)
    assert found(empty) is None
    monkeypatch.setenv("PATH", "")
    assert found(tmp_path) is None


def test_run_without_a_repository_records_no_commit(train, monkeypatch):
    from normexp.training import checkpoint as summarize

    monkeypatch.setattr(summarize, "checkout", lambda: None)
    assert "checkout" not in train("max_steps=0")[0]
