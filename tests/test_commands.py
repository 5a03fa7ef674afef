"""Whole commands as a newcomer types them, each in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forked import call, run_script, started

ROOT = Path(__file__).parents[1]
SMALL = ["model.depth=1", "model.width=16", "max_epochs=2"]


def run(*arguments: str) -> subprocess.CompletedProcess:
    return started("train.py", *arguments, COLUMNS="200")


def in_ascii(argv: list[str]) -> None:
    sys.stdout.reconfigure(encoding="ascii", errors="strict")
    run_script(argv)


def test_signs_that_a_terminal_cannot_show_are_replaced(tmp_path):
    found = call(in_ascii, [str(ROOT / "train.py"), "max_steps=1", *SMALL[:2], f"outputs={tmp_path}"])
    assert (found.returncode, found.stderr) == (0, "")
    assert "completed" in found.stdout


@pytest.mark.integration
@pytest.mark.parametrize("imported", ["omegaconf", "torch"])
def test_interruption_before_training_leaves_nothing_but_one_line(tmp_path, imported):
    """As soon as a library is imported, before the next ones are: not after some seconds, which a busy machine takes
    for other things."""
    command = [sys.executable, "-X", "importtime", "train.py", f"outputs={tmp_path}/o", "max_epochs=1000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        output = process.stdout
        assert any(line.startswith("import time:") and line.split()[-1] == imported for line in output)
        process.send_signal(signal.SIGINT)
        said = [line for line in output if not line.startswith("import time:")]
        assert process.wait(timeout=60) == 130
    assert said == ["interrupted before training; nothing was written, and the same command begins again\n"]
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_traceback_appears_only_when_asked_for(tmp_path, monkeypatch):
    assert "Traceback" not in run("model.depth=0", f"outputs={tmp_path}/o").stderr
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert "Traceback" in run("model.depth=0", f"outputs={tmp_path}/o").stderr
