"""`benchmark.py check` and `all`, on fabricated figures and on a machine without a GPU."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import benchmark
import pytest
import torch
from benchmarks import all as every
from benchmarks import check
from benchmarks.measure.everything import EVERYTHING
from benchmarks.measure.regressions import GUARDS, Guard, regressions
from benchmarks.page.performance_page import SECTIONS
from forked import forked

ROOT = Path(__file__).parents[1]
LOWER = Guard("slow.json", "slow --rounds 1 data=mnist", ("model", "device"), tolerance=0.2)
HIGHER = Guard("fast.json", "fast", ("family",), more_is_better=True, tolerance=0.25)


def rows(**ratios: float) -> list[dict]:
    return [
        {"model": name, "device": "cpu", "family": name, "ratio": ratio} for name, ratio in ratios.items()
    ]


@pytest.mark.parametrize(
    ("guard", "fresh", "lines"),
    [
        (LOWER, 1.19, []),
        (LOWER, 0.2, []),
        (LOWER, 1.21, ["mlp, cpu: 1.21, was 1.00, allowed <= 1.20"]),
        (HIGHER, 0.81, []),
        (HIGHER, 9.0, []),
        (HIGHER, 0.79, ["mlp: 0.79, was 1.00, allowed >= 0.80"]),
    ],
)
def test_a_ratio_may_be_worse_by_its_tolerance_and_better_by_any_amount(guard, fresh, lines):
    found = regressions(guard, rows(mlp=1.0, cnn=2.0), rows(mlp=fresh, cnn=2.0, gpt=99.0))
    assert list(found.values()) == lines


def test_rows_that_were_never_committed_are_an_error():
    with pytest.raises(ValueError, match=r"slow.json: has none of the rows of `slow"):
        regressions(LOWER, rows(mlp=1.0), rows(cnn=1.0))
    on_gpu = [row | {"device": "cuda"} for row in rows(mlp=1.0)]
    with pytest.raises(ValueError, match=r"has none of the rows"):
        regressions(LOWER, on_gpu, rows(mlp=1.0))


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """Two committed files, and fresh rows in the order in which they are measured."""
    (tmp_path / "slow.json").write_text(json.dumps(rows(mlp=1.0, cnn=1.0)))
    (tmp_path / "fast.json").write_text(json.dumps(rows(small=3.0)))
    monkeypatch.setattr(check, "GUARDS", {"slow": LOWER, "fast": HIGHER})
    fresh: dict[str, list] = {"slow.json": [rows(mlp=1.1, cnn=1.1)], "fast.json": [rows(small=3.1)]}
    monkeypatch.setattr(check, "measure", lambda guard, given: fresh[guard.file].pop(0))
    return tmp_path, fresh


def test_check_is_silent_about_what_is_as_fast_as_before(docs, capsys):
    assert check.main(["--docs", str(docs[0])]) == []
    assert capsys.readouterr().out.count("as committed") == 2


def test_check_names_what_was_worse_twice_and_nothing_else(docs, capsys):
    place, fresh = docs
    fresh["slow.json"] = [rows(mlp=1.5, cnn=1.5), rows(mlp=1.1, cnn=1.3)]  # the mlp only once
    with pytest.raises(SystemExit) as stopped:
        check.main(["--docs", str(place)])
    assert stopped.value.code == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("regression")]
    assert lines == ["regression  slow: cnn, cpu: 1.30, was 1.00, allowed <= 1.20"]


def test_check_takes_another_tolerance(docs, capsys):
    docs[1]["slow.json"] *= 2
    with pytest.raises(SystemExit):
        check.main(["--docs", str(docs[0]), "--tolerance", "0.05"])
    assert capsys.readouterr().out.count("regression  slow") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "speed"], "--only=speed: choose from"),
        (["--docs", "/nowhere"], "Error: .*/nowhere/slow.json: is not"),
    ],
)
def test_check_of_nothing_is_one_line(docs, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        check.main(arguments)
    assert stopped.value.code
    said = (
        str(stopped.value.code)
        if isinstance(stopped.value.code, str)
        else capsys.readouterr().err.splitlines()[-1]
    )
    assert re.search(message, said)


def test_each_guard_measures_rows_of_the_repository():
    for guard in GUARDS.values():
        committed = ROOT / "docs" / guard.file
        assert guard.command.split()[0] in benchmark.COMMANDS
        assert {guard.file} <= {file for file, _ in SECTIONS.values()}
        if committed.exists():
            keys = {key for row in json.loads(committed.read_text()) for key in row}
            assert set(guard.same) - {"device"} <= keys


def test_everything_that_the_page_shows_is_measured_by_one_command():
    assert {one.file for one in EVERYTHING.values()} == {file for file, _ in SECTIONS.values()}
    assert {one.command for one in EVERYTHING.values()} <= set(benchmark.COMMANDS)
    assert sum(one.seconds for one in EVERYTHING.values()) < 600
    assert all(one.seconds and one.gpu is not None for one in EVERYTHING.values())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_says_so_in_one_line():
    found = forked("all", "--device", "cuda", script="scripts/benchmark.py")
    assert found.returncode == 1
    assert found.stderr == (
        "Error: --device cuda: torch sees no GPU here; run it where there is one, or give --device cpu\n"
    )


def test_a_measurement_that_fails_or_takes_too_long_is_named_and_the_others_go_on(
    tmp_path, monkeypatch, capsys
):
    commands = {
        "works": ["-c", "import json, sys; json.dump([1], open(sys.argv[-1], 'w'))"],
        "fails": ["-c", "raise SystemExit('no such norm')"],
        "hangs": ["-c", "import time; time.sleep(60)"],
    }
    script = tmp_path / "benchmark.py"
    script.write_text(
        f"import subprocess, sys\ncommands = {commands!r}\n"
        "sys.exit(subprocess.run([sys.executable, *commands[sys.argv[1]], *sys.argv[2:]]).returncode)"
    )
    monkeypatch.setattr(every, "SCRIPT", script)
    assert every.run(["works", "--json", str(tmp_path / "a.json")], 60, hide_gpu=True) == ""
    assert json.loads((tmp_path / "a.json").read_text()) == [1]
    assert every.run(["fails"], 60, hide_gpu=True) == "ended with 1: no such norm"
    assert every.run(["hangs"], 1, hide_gpu=True) == "took more than 1 s"


def test_sizes_of_a_trial_and_of_a_gpu_are_options_that_the_commands_have():
    for name, one in EVERYTHING.items():
        for size in ("cpu", "gpu", "tiny"):
            arguments = every.arguments_of(one, size, ["data.root=/data"])
            text = getattr(one, size)
            if text is not None:
                assert arguments[: 1 + len(shlex.split(text))] == [one.command, *shlex.split(text)], name
                assert (arguments[-1] == "data.root=/data") == ("data=" in text)


@pytest.mark.slow
def test_all_commands_in_one_trial(tmp_path):
    command = [
        sys.executable,
        "scripts/benchmark.py",
        "all",
        "--device",
        "cpu",
        "--tiny",
        "--out",
        str(tmp_path),
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    measured = {one.file for one in EVERYTHING.values() if one.tiny is not None}
    assert {path.name for path in tmp_path.iterdir()} == measured
    assert all(json.loads((tmp_path / file).read_text())[0]["machine"]["gpu"] is None for file in measured)
