"""Two processes with half a batch each compute what BatchNorm computes of the whole."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("synchronized.py")


@pytest.mark.slow
def test_two_processes_compute_batch_norm_of_the_joined_batch(tmp_path):
    command, store = [sys.executable, str(SCRIPT)], str(tmp_path / "store")
    pipes = {"stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, str(rank), store], **pipes) for rank in range(2)]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
