"""A run that is killed, or meets a full disk, at any of its file operations ends as if nothing had happened."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("crashes.py")
SCENARIOS = [
    "mlp", "full", "cnn", "transformer", "gpt", "bf16", "accumulation", "replicas", "diverged", "diverged replicas",
    "precise", "no step",
]  # fmt: skip
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")


def outcomes(scenario: str, folder: Path, *options: str) -> list[dict]:
    command = [sys.executable, str(SCRIPT), scenario, str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(rows: list[dict], at_least: int) -> None:
    assert len(rows) >= at_least
    assert [row for row in rows if row["result"] != "same"] == []


def test_sample_of_kills(tmp_path):
    check(outcomes("full", tmp_path / "runs", "--points", "5"), 5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_point(scenario, tmp_path):
    check(outcomes(scenario, tmp_path / "runs"), 20)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", ["full", "replicas", "transformer"])
def test_killed_twice(scenario, tmp_path):
    check(outcomes(scenario, tmp_path / "runs", "--twice", "--points", "30"), 30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", ["full", "replicas", "no step"])
def test_full_disk_at_every_point(scenario, tmp_path):
    check(outcomes(scenario, tmp_path / "runs", "--full-disk"), 20)
