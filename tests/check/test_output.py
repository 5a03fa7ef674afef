"""What a check prints and writes, its command, and the fixture of pytest."""

import importlib
import io
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from forked import ROOT
from rich.console import Console
from small_networks import around, command, told
from torch import nn

import normexp
from normexp.check.finding import declared
from normexp.check.result import Finding, Result, show
from normexp.check.run import check
from normexp.cli.main import COMMANDS
from normexp.config.errors import why

CALL = ("own_net:Blocks", "--data", "own_net:batch")
pytest_plugins = ["pytester"]


def test_every_finding_says_why_and_its_verdicts_are_on_the_page():
    page = (ROOT / "docs" / "verdicts.md").read_text()
    for name, kind in declared().items():
        assert kind.why.endswith("."), name
        unknown = [one for one in kind.verdicts if not re.search(rf"^\| \[?{one}\b", page, re.M)]
        assert unknown == []


def test_command_prints_a_table_and_strict_exits_with_one(own, capsys):
    assert command(*CALL) == 0
    printed = capsys.readouterr().out
    assert "small_batch" in printed
    assert "not checked" in printed
    assert command(*CALL, "--strict") == 1
    assert command("own_net.py:Healthy", *CALL[1:], "--strict") == 0


def test_json_is_the_result(own, capsys):
    found = told(capsys, *CALL, "--loss", "own_net:loss", "--optimizer", "own_net:optimizer", "--steps", "3")
    assert {"small_batch", "statistics_cold", "decay_on_norms"} <= {f["id"] for f in found["findings"]}
    assert found["facts"][0].endswith("loss: loss")
    assert not found["ok"]


def numbers(capsys, *options):
    found = told(capsys, "own_net:Dropped", "--data", "own_net:shuffled", *options)
    return {f["id"]: f["number"] for f in found["findings"]}


def test_same_command_gives_same_numbers_whatever_was_drawn_before(own, capsys):
    first = numbers(capsys)
    assert {"dropout_before_batchnorm", "mode_gap"} & set(first)
    torch.rand(3)
    np.random.rand(3)
    random.random()
    assert numbers(capsys) == numbers(capsys, "--seed", "0") == first
    assert numbers(capsys, "--seed", "1") != first


def test_equal_network_gives_equal_numbers(own):
    network, batch = own.Dropped(), (torch.randn(16, 6), torch.randint(0, 3, (16,)))
    first = check(network, batch)
    torch.rand(3)
    assert [f.number for f in check(network, batch).findings] == [f.number for f in first.findings]


def test_page_has_the_findings(own, capsys, tmp_path):
    assert command(*CALL, "--page", "out") == 0
    assert "page: out/index.html" in capsys.readouterr().err
    html = (tmp_path / "out" / "index.html").read_text()
    torch.manual_seed(0)
    result = check(own.Blocks(), own.batch())
    assert result.findings
    names = [finding.id for finding in result.findings] + list(result.not_checked)
    assert [name for name in names if name not in html] == []


def test_folder_of_a_run_brings_its_weights_and_data(train, capsys):
    _, folder = train("norm=batchnorm", "max_steps=3")
    found = told(capsys, str(folder))
    ids = {finding["id"] for finding in found["findings"]}
    assert "statistics_unused" not in ids  # the checkpoint's, after three batches
    assert "statistics_cold" in found["healthy"] or "statistics_cold" in ids  # the loader is known
    assert found["facts"][0].endswith("loss: its training_step")


@pytest.mark.integration
def test_api_is_the_function_before_and_after_the_package_is_imported():
    first = normexp.check(around(nn.LayerNorm(8)), torch.randn(8, 6))
    importlib.import_module("normexp.check.run")  # puts the package in the function's place
    second = normexp.check(around(nn.LayerNorm(8)), torch.randn(8, 6))
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    code = "import normexp; print(normexp.check.CheckNorms.__name__)"  # as the pages write it
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "CheckNorms\n"
    assert "check" in COMMANDS


def test_table_holds_sentence_fix_and_verdict():
    console = Console(width=160, record=True, file=io.StringIO())
    show(check(around(nn.BatchNorm1d(8)), torch.randn(4, 6)), console)
    text = console.export_text()
    words = ("small_batch", "normalizes over 4 samples", 'swap(model, "layernorm")', "claim=P10a", "healthy:")
    assert [word for word in words if word not in text] == []


def test_fixture_fails_a_test_of_a_faulty_network(pytester):
    pytester.makepyfile("""
        import torch
        from torch import nn
        def build(norm):
            return nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 3))
        def test_healthy(normexp_check):
            assert normexp_check(build(nn.LayerNorm(8)), torch.randn(4, 6)).ok
        def test_faulty(normexp_check):
            normexp_check(build(nn.BatchNorm1d(8)), torch.randn(4, 6))
        def test_allowed(normexp_check):
            normexp_check(build(nn.BatchNorm1d(8)), torch.randn(4, 6), allow=("small_batch",))
        def test_ignored(normexp_check):
            normexp_check(build(nn.BatchNorm1d(8)), torch.randn(4, 6), ignore=("small_batch@1",))
        def test_ignored_elsewhere(normexp_check):
            normexp_check(build(nn.BatchNorm1d(8)), torch.randn(4, 6), ignore=("small_batch@2",))
        def test_typo(normexp_check):
            normexp_check(build(nn.LayerNorm(8)), torch.randn(4, 6), allow=("small_bach",))
        def test_by_the_table(normexp_check):
            normexp_check(build(nn.LayerNorm(8, eps=100.0)), torch.randn(4, 6))
    """)
    pytester.makepyprojecttoml('[tool.normexp.check]\nignore = ["eps"]')
    found = pytester.runpytest_inprocess(
        "-p", "no:normexp", "-p", "normexp.check.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist"
    )
    found.assert_outcomes(passed=4, failed=3)
    found.stdout.fnmatch_lines(["*did you mean small_batch*"])
    found.stdout.fnmatch_lines(['*normexp_check(..., ignore=("small_batch",))*'])
    found.stdout.fnmatch_lines(["*warning small_batch: BatchNorm normalizes over 4 samples*"])


def test_names_and_errors_of_a_stranger_reach_no_terminal_raw():
    clear = "\x1b[2J\x9b31m"
    finding = Finding("kind", "error", f"said {clear}", 1.0, "times", f"mend {clear}", (f"layer{clear}",))
    result = Result(f"Net{clear}", [finding], not_checked={"other": f"ValueError: {clear}"})
    screen = io.StringIO()
    show(result, Console(file=screen, width=200))

    for text in (screen.getvalue(), str(result), why(ValueError(clear))):
        assert "\\x1b[2J" in text
        assert not set(text) & {"\x1b", "\x9b"}
