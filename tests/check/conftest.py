"""What several tests of checks ask for."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """`own_networks.py` as a user's file of the present folder, imported as `own_net`."""
    shutil.copy(Path(__file__).with_name("own_networks.py"), tmp_path / "own_net.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_net", raising=False)  # of another test's folder
    return importlib.import_module("own_net")
