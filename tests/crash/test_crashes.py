"""A run that is killed, or meets a full disk, at any of its file operations ends as if nothing had happened."""

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import forked
from results import difference

SCENARIOS = [
    "mlp", "full", "cnn", "transformer", "gpt", "bf16", "accumulation", "diverged",
    "precise", "no step",
]  # fmt: skip
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")


def outcomes(scenario: str, folder: Path, *options: str, **variables: str) -> list[dict]:
    done = forked(scenario, str(folder), *options, script="tests/crash/crashes.py", **variables)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(rows: list[dict], at_least: int) -> None:
    assert len(rows) >= at_least
    assert [row for row in rows if row["result"] != "same"] == []


@pytest.mark.integration
def test_sample_of_kills(tmp_path):
    check(outcomes("full", tmp_path / "runs", "--points", "5"), 5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_point(scenario, tmp_path):
    check(outcomes(scenario, tmp_path / "runs"), 20)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", ["full", "transformer"])
def test_killed_twice(scenario, tmp_path):
    check(outcomes(scenario, tmp_path / "runs", "--twice", "--points", "30"), 30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_full_disk_at_every_point(scenario, tmp_path):
    check(outcomes(scenario, tmp_path / "runs", "--full-disk"), 20)


@pytest.fixture
def elsewhere(tmp_path):
    """A temporary folder on another file system than the runs, from which a move is a copy."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system")
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("options", [(), ("--full-disk",)])
def test_temporary_folder_on_another_file_system_is_not_used(options, tmp_path, elsewhere):
    check(outcomes("full", tmp_path / "runs", "--points", "40", *options, TMPDIR=str(elsewhere)), 40)
    assert [path.name for path in elsewhere.rglob("*") if path.is_file()] == []


def arrays(**content: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"loss": [1.0, 2.0 + 1e-12], "key": "a"}, None),
        ({"loss": [1.0, 2.1], "key": "a"}, "/loss: other numbers"),
        ({"loss": [1.0, 2.0], "key": "b"}, "/key: a and b"),
        ({"loss": [1.0, 2.0]}, ": keys ['key']"),
    ],
)
def test_arrays_of_groups_of_other_sizes_may_differ_in_their_last_digits_alone(other, found):
    assert difference(arrays(loss=[1.0, 2.0], key="a"), arrays(**other), near=1e-8) == found
