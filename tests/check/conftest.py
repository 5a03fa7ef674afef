"""What several tests of checks ask for."""

import importlib
import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def own(request, tmp_path, monkeypatch):
    """The module that a test file writes down as `OWN`, imported from the present folder as `own_net`."""
    (tmp_path / "own_net.py").write_text(request.module.OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_net", raising=False)  # of another test's folder
    return importlib.import_module("own_net")
