"""Processes that register at once take turns, lose no row and leave nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from normexp.claims.spec.registry import read_registry, register
from normexp.runs import files

ROOT = Path(__file__).parents[2]
CODE = """
import sys
from pathlib import Path
from normexp.claims.spec.registry import register

print("ready", flush=True)
sys.stdin.readline()
for number in range(10):
    register(Path(sys.argv[1]), subject=f"{sys.argv[2]}-{number}", protocol="p", reason="r", seeds=[[0, 2]], commit="")
"""


@pytest.mark.integration
def test_processes_that_register_at_once_lose_no_row_and_leave_no_file(tmp_path):
    path, temporary = tmp_path / "evidence" / "registry.jsonl", tmp_path / "temporary"
    temporary.mkdir()
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TMPDIR": str(temporary)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, str(path), str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )
        for number in range(3)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        assert process.communicate(timeout=100)[1] == ""
    assert len({row.subject for row in read_registry(path)}) == 30
    assert [one.name for one in path.parent.iterdir()] == ["registry.jsonl"]
    assert list(temporary.iterdir()) == []


def test_row_that_could_not_be_written_whole_leaves_the_registry_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "registry.jsonl"
    same = {"protocol": "p", "reason": "r", "seeds": [[0, 2]], "commit": ""}
    register(path, subject="P10", **same)
    before = path.read_bytes()

    def full(paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        register(path, subject="P11", **same)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["registry.jsonl"]
