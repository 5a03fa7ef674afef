"""`normexp train ...` and `python train.py ...` name themselves in what they say and record."""

import os
import shutil
import subprocess
import sys

import pytest

from normexp import __version__
from normexp.cli import main as commands
from normexp.cli.command import help_of, parse
from normexp.cli.help import commands as table
from normexp.config import process as invocation

INSTALLED = ["/usr/bin/normexp", "C:\\Scripts\\normexp.exe" if sys.platform == "win32" else "normexp"]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(invocation, "_sub_command", [])


@pytest.mark.parametrize("program", INSTALLED)
def test_installed_command_is_named_without_its_folder(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program, "train", "norm=none", "name=a b"])
    assert invocation.command("report") == "normexp report"
    assert invocation.typed(sys.argv) == "normexp train norm=none 'name=a b'"


def test_script_is_named_as_it_was_started(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["../train.py", "norm=none"])
    assert invocation.command("train") == "python train.py"
    assert invocation.command("verify") == "python scripts/verify.py"
    assert invocation.typed(sys.argv) == "python ../train.py norm=none"
    invocation.restore_command()  # nothing was hidden
    assert sys.argv == ["../train.py", "norm=none"]


@pytest.mark.parametrize("argument", ["name=a\nb", "name='a\\\tb'", "\x1b[2J", "a\u2028b", "a\x85b"])
def test_recorded_command_is_one_line_that_a_shell_reads_back(argument):
    recorded = invocation.typed(["train.py", argument])
    assert recorded.isprintable()
    if shell := shutil.which("bash"):
        words = recorded.removeprefix("python train.py ")
        said = subprocess.run(
            [shell, "-c", f"printf %s {words}"], env={**os.environ, "LC_ALL": "C.UTF-8"}, capture_output=True
        )
        assert said.stdout.decode() == argument


@pytest.mark.parametrize("arguments", [[], ["norm=none"], ["-m", "seed=0,1"]])
def test_word_that_hydra_must_not_see_is_put_back_once(monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/normexp", "train", *arguments])
    invocation.hide_command()
    assert sys.argv == ["/usr/bin/normexp", *arguments]
    for _ in range(2):
        invocation.restore_command()
        assert sys.argv == ["/usr/bin/normexp", "train", *arguments]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 0, "normexp evaluate  evaluate a saved run"),
        (["--help"], 0, "`normexp <command> --help` explains a command."),
        (["--version"], 0, f"normexp {__version__}"),
        (["repotr"], 2, "Error: repotr: no such command; did you mean report?"),
        (["report"], 2, "Error: name the folder of a study"),
        (["verify", "claim"], 2, "Error: claim: write key=value"),
    ],
)
def test_first_word_chooses_the_command(monkeypatch, capsys, arguments, status, said):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/normexp", *arguments])
    try:
        found = commands.main()
    except SystemExit as stop:
        found = stop.code
    assert found == status
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", [name for name in table() if name != "train"])
def test_every_command_of_the_table_is_a_function_and_explains_its_words(name):
    assert callable(commands.function_of(name))
    text = help_of(name)
    for key, spec in table()[name].get("words", {}).items():
        assert not isinstance(spec, dict) or "help" not in spec or key in text, key
    with pytest.raises(ValueError, match="--no-such: write key=value"):
        parse(name, ["--no-such"])


def test_a_word_is_written_in_three_ways_and_has_its_kind():
    for words in (["samples=8", "data=x"], ["--samples", "8", "--data=x"], ["--data", "x", "--samples=8"]):
        asked = parse("check", ["net", *words, "--json"])
        assert (asked.others, asked.samples, asked.data, asked.json, asked.strict) == (
            ["net"],
            8,
            "x",
            True,
            False,
        )
    for word, said in (
        ("samples=0", "must be a whole number of at least 1"),
        ("data=", "a value is missing"),
        ("strict=1", "write true or false"),
    ):
        with pytest.raises(ValueError, match=f"{word}: {said}"):
            parse("check", ["net", word])
    with pytest.raises(ValueError, match="checkpoint=first: choose from last, best"):
        parse("evaluate", ["run", "checkpoint=first"])
    assert parse("verify", ["workers=3"]).engine.workers == 3
    assert parse("verify", ["workers=auto"]).engine.workers is None
