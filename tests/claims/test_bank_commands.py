"""What commands do with a user's bank of which nothing is known or measured yet."""

import json

import pytest
import yaml

from normexp.claims.spec.registry import read_registry
from normexp.cli.evidence import main
from normexp.cli.register import main as register

GRID = {"norms": ["none", "batchnorm"], "seeds": 5}
CELLS = {"small": ["data=digits", "model=mlp", "recipe=plain", "lr=0.2"]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bk").mkdir()
    (tmp_path / "bk" / "own.yaml").write_text(yaml.safe_dump({"grid": GRID, "cells": CELLS}))
    (tmp_path / "bk" / "bare.yaml").write_text(yaml.safe_dump({"cells": CELLS}))


def test_a_page_without_a_measured_setting_names_the_commands_that_measure(tmp_path, capsys):
    assert main(["page", "bank=bk/own.yaml", "to=p.md"]) == 2
    said = capsys.readouterr().err
    assert "bank=bk/own.yaml: no setting of it is measured yet; train its grid: " in said
    assert "evidence grid bank=bk/own.yaml, then " in said
    assert said.endswith("evidence keep claim=bank bank=bk/own.yaml to=bk/evidence/own\n")
    assert said.count("\n") == 1
    assert not (tmp_path / "p.md").exists()


def test_the_second_archive_is_written_into_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("normexp.cli.evidence.EVIDENCE", tmp_path / "ledger")
    assert main(["export", "to=new/x.zip"]) == 0
    assert (tmp_path / "new" / "x.zip").exists()


def test_a_grid_whose_cells_leave_out_their_rates_is_registered(tmp_path):
    assert register(["claim=bank", "bank=bk/own.yaml", "reason=first"]) == 0
    (row,) = read_registry(tmp_path / "registry.jsonl")
    protocol = json.loads((tmp_path / row.file).read_text())
    assert protocol["families"]["small"]["rates"] == [0.02, 0.06, 0.2, 0.6, 2.0]


def test_a_bank_is_named_as_it_was_typed(capsys):
    assert register(["claim=bank", "bank=bk/bare.yaml", "reason=first"]) == 2
    assert "bank=bk/bare.yaml: has no grid to register" in capsys.readouterr().err
