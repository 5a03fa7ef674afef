"""`normexp train ...` and `python train.py ...` name themselves in what they say and record."""

import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest
from command_words import options_of
from forked import started
from refusals import refused

from normexp import __version__
from normexp.cli import main as commands
from normexp.cli.check import check
from normexp.cli.compare import compare
from normexp.cli.main import COMMANDS, run
from normexp.cli.verify import verify
from normexp.config import process as invocation

ROOT = Path(__file__).parents[1]
INSTALLED = ["/usr/bin/normexp", "C:\\Scripts\\normexp.exe" if sys.platform == "win32" else "normexp"]


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


@pytest.mark.parametrize("program", ["my_study.py", "/usr/lib/ipykernel_launcher.py", "-c", ""])
def test_a_program_of_ones_own_is_told_the_installed_command(monkeypatch, program):
    monkeypatch.setattr(sys, "argv", [program])
    assert invocation.command("train") == "normexp train"


@pytest.mark.parametrize("argument", ["name=a\nb", "\x1b[2J", "a\u2028b", "a\x85b"])
def test_recorded_command_is_one_line(argument):
    assert invocation.typed(["train.py", argument]).isprintable()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 0, "normexp runs      list what has been trained"),
        (["--help"], 0, "`normexp <command> --help` explains a command."),
        (["--version"], 0, f"normexp {__version__}"),
        (["verify", "claim"], 2, "Error: claim: is a word too many; write key=value"),
    ],
)
def test_first_word_chooses_the_command(capsys, arguments, status, said):
    try:
        found = commands.main(arguments)
    except SystemExit as stop:
        found = stop.code
    assert found == status
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "train"])
@pytest.mark.parametrize("columns", ["80", "120"])
def test_every_command_explains_its_words(name, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    assert run(name, ["--help"]) == 0
    usage = capsys.readouterr().out.partition("Claims:")[0].partition("names:")[0]
    assert usage.startswith(f"Usage: normexp {name}")
    assert max(map(len, usage.splitlines())) <= int(columns)
    function = pkgutil.resolve_name(f"normexp.cli.{COMMANDS[name][0]}")
    for key in inspect.signature(function).parameters.keys() - {"engine"}:
        assert f"--{key.replace('_', '-')} " in usage or key.upper() in usage
    assert run(name, ["--no-such"]) == 2
    assert capsys.readouterr().err.startswith("Error: --no-such: no such option; ")


def test_a_word_is_written_in_three_ways_and_has_its_kind():
    for words in (["samples=8", "data=x"], ["--samples", "8", "--data=x"], ["--data", "x", "--samples=8"]):
        asked = options_of(check, ["net", *words, "--json"])
        assert (asked["others"], asked["samples"], asked["data"]) == (("net",), 8, "x")
        assert (asked["json"], asked["strict"]) == (True, False)
    found = options_of(compare, ["norms=none,rmsnorm", "rates=[0.1,1]", "batch_sizes=2", "model=cnn"])
    assert (found["norms"], found["rates"]) == (("none", "rmsnorm"), (0.1, 1.0))
    assert found["others"] == ("model=cnn",)
    assert (found["batch_sizes"], found["margin"]) == ((2,), None)
    assert options_of(compare, ["margin=practical"])["margin"] == "practical"
    assert options_of(verify, ["workers=3"])["engine"].workers == 3


@pytest.mark.parametrize(
    ("command", "word", "said"),
    [
        (check, "samples=0", "must be >= 1"),
        (check, "samples=many", "must be a whole number"),
        (check, "data=", "a value is missing; write data=VALUE"),
        (check, "strict=maybe", "must be true or false"),
        (check, "other", "is a word too many; write key=value with a key of data, "),
        (compare, "seeds=2", "must be >= 5"),
        (compare, "margin=nan", "must be < inf"),
        (compare, "margin=much", "must be a number or choose from practical"),
        (compare, "rates=0.1,-1", "must be > 0"),
        (compare, "batch_sizes=2,b", "must be"),
        (compare, "spread=0", "must be > 0"),
        (compare, "guess=inf", "must be < inf"),
        (check, "samples=2.7", "must be a whole number"),
    ],
)
def test_a_word_of_another_kind_is_one_line(command, word, said):
    with refused(f"^{word}: {said}"):
        options_of(command, ["net", word])


@pytest.mark.parametrize("imported", ["normexp.cli.main", "normexp.config.process", "pydantic"])
@pytest.mark.parametrize("script", ["train.py", "normexp/__main__.py"])
def test_interruption_of_the_first_imports_is_one_line(script, imported, tmp_path):
    code = f"""
import runpy, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {imported!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = [{script!r}, "train", "norm=layernorm"]
runpy.run_path({str(ROOT / script)!r}, run_name="__main__")
"""
    done = started("-c", code, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_python_without_the_packages_is_told_how_to_install_them():
    done = started("-S", "train.py", "norm=layernorm")  # -S: no site-packages
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"Error: \w+ is not installed in this Python .*: pip install -e \.\n", done.stderr)
