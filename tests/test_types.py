"""Types hold in every room of the package, in scripts and in the plugin."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_mypy_finds_nothing():
    pytest.importorskip("mypy", reason="mypy is not installed; pip install -e .[dev]")
    command = [sys.executable, "-m", "mypy", "--no-error-summary"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
