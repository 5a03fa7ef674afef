"""What a check prints and writes, its command, and the fixture of pytest."""

import importlib
import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import normexp
from normexp.check.finding import declared
from normexp.check.result import Finding, Result, show
from normexp.check.run import check
from normexp.cli.main import COMMANDS
from normexp.config.errors import why

OWN = """
import torch
from torch import nn
Model = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
class Healthy(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
class Dropped(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
def shuffled():
    rows = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,)))
    return torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)
def loader():
    return [(torch.randn(4, 6), torch.randint(0, 3, (4,)))]
def loss(output, target):
    return output.square().mean()
def boom():
    raise RuntimeError("boom\\nand more")
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), 1e-3)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_network.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return "own_network"


def command(*arguments):
    from normexp.cli.main import run

    return run("check", list(arguments))


def test_every_finding_says_why_and_its_verdicts_are_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()
    for name, kind in declared().items():
        assert kind.why.endswith("."), name
        assert [
            verdict for verdict in kind.verdicts if not re.search(rf"^\| \[?{verdict}\b", page, re.M)
        ] == []


def test_command_prints_a_table_and_strict_exits_with_one(own, capsys):
    assert command("own_network:Model", "--data", "own_network:loader") == 0
    printed = capsys.readouterr().out
    assert "small_batch" in printed
    assert "not checked" in printed
    assert command("own_network:Model", "--data", "own_network:loader", "--strict") == 1
    assert command("own_network.py:Healthy", "--data", "own_network:loader", "--strict") == 0


def test_json_is_the_result(own, capsys):
    options = ["--json", "--loss", "own_network:loss", "--optimizer", "own_network:optimizer", "--steps", "3"]
    assert command("own_network:Model", "--data", "own_network:loader", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"small_batch", "statistics_cold", "decay_on_norms"} <= {f["id"] for f in found["findings"]}
    assert found["facts"][0].endswith("loss: loss")
    assert not found["ok"]


def numbers(capsys, *options):
    assert command("own_network:Dropped", "--data", "own_network:shuffled", "--json", *options) == 0
    return {f["id"]: f["number"] for f in json.loads(capsys.readouterr().out)["findings"]}


def test_same_command_gives_same_numbers_whatever_was_drawn_before(own, capsys):
    first = numbers(capsys)
    assert {"dropout_before_batchnorm", "mode_gap"} & set(first)
    torch.rand(3)
    np.random.rand(3)
    random.random()
    assert numbers(capsys) == numbers(capsys, "--seed", "0") == first
    assert numbers(capsys, "--seed", "1") != first
    assert command("own_network:Dropped", "--seed", "-1") == 2


def test_equal_network_gives_equal_numbers_and_no_random_state_moves(own):
    network, batch = importlib.import_module(own).Dropped(), (torch.randn(16, 6), torch.randint(0, 3, (16,)))
    torch.manual_seed(1)
    first = check(network, batch)
    drawn = torch.rand(3)
    assert [f.number for f in check(network, batch).findings] == [f.number for f in first.findings]
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), drawn)


def test_page_has_the_findings(own, capsys, tmp_path):
    assert command("own_network:Model", "--data", "own_network:loader", "--page", "out") == 0
    assert "page: out/index.html" in capsys.readouterr().err
    html = (tmp_path / "out" / "index.html").read_text()
    torch.manual_seed(0)
    result = check(importlib.import_module(own).Model(), importlib.import_module(own).loader())
    assert result.findings
    assert [f.id for f in result.findings if f.id not in html] == []
    assert [name for name in result.not_checked if name not in html] == []


def test_folder_of_a_run_brings_its_weights_and_data(train, capsys):
    _, folder = train("norm=batchnorm", "max_steps=3")
    capsys.readouterr()
    assert command(str(folder), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    ids = {finding["id"] for finding in found["findings"]}
    assert "statistics_unused" not in ids  # the checkpoint's, after three batches
    assert "statistics_cold" in found["healthy"] or "statistics_cold" in ids  # the loader is known
    assert found["facts"][0].endswith("loss: its training_step")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["own_network:Nothing"], "has no attribute 'Nothing'"),
        (["no_such_package:Model"], "No module named 'no_such_package'"),
        (["own_network:Model", "--data", "own_network:loss"], "its call raises TypeError"),
        (
            ["own_network:boom"],
            "NETWORK=own_network:boom: its call raises RuntimeError (boom and more)",
        ),
        (["own_network:Model", "--data", "0x6"], "loader: gives a batch without samples"),
        (["resnet19"], "NETWORK=resnet19: write package.module:name, or file.py:name"),
        (["own_network:Model", "--precision", "17"], "precision=17: unknown"),
        (["own_network:Model", "--data", "4,3,8,8"], "a shape is written 4x3x8x8"),
        (["own_network:Model", "--data", "4x3x"], "a shape is written 32x3"),
        (["."], "holds no run itself; name the folder of one run"),
        (["own_network:Model", "--weights", "gone.pt"], "--weights=gone.pt: no such file"),
    ],
)
def test_slip_is_one_line(own, words, message, capsys):
    assert command(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_weights_are_loaded_as_tensors_only(own, capsys, tmp_path):
    torch.save({"model": nn.Linear(2, 2)}, "code.pt")
    assert command("own_network:Model", "--weights", "code.pt") == 2
    assert "holds more than tensors; save model.state_dict()" in capsys.readouterr().err


@pytest.mark.integration
def test_api_is_the_function_before_and_after_the_package_is_imported():
    module = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    first = normexp.check(module, torch.randn(8, 6))
    importlib.import_module("normexp.check.run")  # puts the package in the function's place
    second = normexp.check(module, torch.randn(8, 6))
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    code = "import normexp; print(normexp.check.CheckNorms.__name__)"  # as the pages write it
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "CheckNorms\n"
    assert "check" in COMMANDS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "17"}, "precision=17: unknown"),
        ({"samples": 0}, "samples=0: too small"),
        ({"loader": []}, "loader: gives no batch"),
        ({"loader": torch.zeros(0, 6)}, "loader: gives a batch without samples"),
    ],
)
def test_bad_input_is_one_line(options, message):
    with pytest.raises(ValueError, match=message):
        check(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8)), **options)
    with pytest.raises(ValueError, match="no normalization layer"):
        check(nn.Linear(6, 8))
    with pytest.raises(ValueError, match="module=BatchNorm1d: has no parameters"):
        check(nn.BatchNorm1d(8, affine=False), torch.randn(4, 8))


def test_table_holds_sentence_fix_and_verdict():
    result = check(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), torch.randn(4, 6))
    console = Console(width=160, record=True, file=io.StringIO())
    show(result, console)
    text = console.export_text()
    words = ("small_batch", "normalizes over 4 samples", 'swap(model, "layernorm")', "claim=P10a", "healthy:")
    assert [word for word in words if word not in text] == []


pytest_plugins = ["pytester"]


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
