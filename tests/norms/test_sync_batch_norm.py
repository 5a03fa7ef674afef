"""Two processes with half a batch each compute what BatchNorm computes of the whole."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("synchronized.py")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batchnorm_sync"])
def test_two_processes_compute_batch_norm_of_the_joined_batch(name, tmp_path):
    command = [sys.executable, str(SCRIPT)]
    store = str(tmp_path / "store")
    processes = [
        subprocess.Popen([*command, str(rank), store], stderr=subprocess.PIPE, text=True) for rank in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
