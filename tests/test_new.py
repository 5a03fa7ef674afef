"""What `normexp new` writes works as it is: its test passes, and a run or a verdict uses it."""

import functools
import os
import re
from pathlib import Path

import pytest
from forked import call, started
from refusals import refused

from normexp.cli.main import run
from normexp.cli.new import PARTS, begin

ROOT = Path(__file__).parents[1]
SMALL = ["max_steps=2", "data=digits", "trainer=cpu", "threads=1"]


@pytest.fixture(scope="module")
def own_tests(tmp_path_factory) -> str:
    """What pytest says, in one process, of a folder with one of each kind."""
    folder = tmp_path_factory.mktemp("own")
    for kind in (*PARTS, "claim"):
        assert all(path.exists() for path in begin(kind, f"my_{kind}", folder))
    path = os.pathsep.join([str(ROOT), str(folder)])
    return call(pytest.main, ["-q", "-rA", "--color=no"], folder=folder, PYTHONPATH=path).stdout


@pytest.mark.integration
@pytest.mark.parametrize("kind", [*PARTS, "claim"])
def test_the_files_pass_their_own_test(kind, own_tests):
    results = re.findall(rf"^([A-Z]+) test_my_{kind}\.py::", own_tests, re.MULTILINE)
    assert set(results) == {"PASSED"}, own_tests


@pytest.mark.integration
def test_in_a_checkout_they_go_to_the_places_of_the_package(tmp_path):
    """Their tests pass there, with a package that has these modules beside its own."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "normexp"\n')
    for kind in PARTS:
        module, config, test = begin(kind, f"my_{kind}", tmp_path)
        assert module == tmp_path / "normexp" / f"{kind}s" / f"my_{kind}.py"
        assert (config.parent, test.parent) == (tmp_path / "configs" / kind, tmp_path / "tests" / f"{kind}s")
        assert f"_target_: normexp.{kind}s.my_{kind}.My{kind.capitalize()}\n" in config.read_text()
        loader = f"""
import sys
import normexp.{kind}s as home
home.__path__.append({str(module.parent)!r})
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", {str(test)!r}]))
"""
        found = started("-c", loader, folder=tmp_path)
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["norm", "model", "monitor"])
def test_a_run_uses_them(kind, tmp_path):
    begin(kind, f"my_{kind}", tmp_path)
    chosen = f"{kind}=[light,my_{kind}]" if kind == "monitor" else f"{kind}=my_{kind}"
    words = ["train", "--config-dir", "configs", chosen, f"allow_targets=[my_{kind}]", *SMALL]
    command = functools.partial(started, "-m", "normexp", folder=tmp_path, more=[tmp_path])
    run = command(*words)
    assert run.returncode == 0, run.stderr
    assert list(tmp_path.rglob("summary.json"))
    refused = command(*[word for word in words if "allow_targets" not in word], "seed=1")
    assert "add allow_targets=[" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["norm", "My-Norm"], "cannot name a Python file"),
        (["norm", "class"], "cannot name a Python file"),
        (["model", "json"], "json: is taken"),
        (["model", "omegaconf"], "omegaconf: is taken"),
        (["norm"], "write normexp new KIND NAME"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("new", arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "test_mine.py").write_text("# my own")
    with refused(r"test_mine\.py: is there already"):
        begin("norm", "mine", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]


def test_the_command_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("new", ["norm", "mine"]) == 0
    assert "normexp train --config-dir configs norm=mine allow_targets=[mine]" in capsys.readouterr().out
