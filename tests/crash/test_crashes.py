"""A run that is killed at any of its file operations ends as if nothing had happened."""

import json
import sys
from pathlib import Path

import pytest
from forked import forked

SCENARIOS = [
    "mlp", "full", "cnn", "transformer", "gpt", "bf16", "accumulation", "diverged", "early", "precise", "no step",
]  # fmt: skip
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def check(scenario: str, folder: Path, at_least: int, *options: str) -> None:
    done = forked(scenario, str(folder), *options, script="tests/crash/crashes.py")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) >= at_least
    assert [row for row in rows if row["result"] != "same"] == []


@pytest.mark.integration
def test_sample_of_kills(tmp_path):
    check("full", tmp_path / "runs", 5, "--points", "5")


@pytest.mark.integration
def test_sample_of_runs_that_are_killed_twice(tmp_path):
    check("transformer", tmp_path / "runs", 5, "--points", "5", "--twice")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", [(), ("--twice",)], ids=["once", "twice"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_point(scenario, options, tmp_path):
    check(scenario, tmp_path / "runs", 20, *options)
