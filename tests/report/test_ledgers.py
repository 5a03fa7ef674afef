"""What a study's ledgers say about a sweep that runs, has ended, or was killed."""

import json
import os
import socket
import subprocess
import sys

import pytest

from normexp.runs.unfinished import still_running


@pytest.fixture
def ledger(tmp_path):
    def write(**launch) -> bool:
        folder = tmp_path / ".sweeps" / "now"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sweep.json").write_text(json.dumps(launch))
        return still_running(tmp_path)

    return write


def test_sweep_runs_as_long_as_its_process_lives(ledger):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here, open_cells = socket.gethostname(), [{"state": "completed"}, {"state": "planned"}]
    assert ledger(host=here, pid=os.getpid(), cells=open_cells)
    assert not ledger(host=here, pid=os.getpid(), cells=open_cells[:1])
    assert not ledger(host=here, pid=ended.pid, cells=open_cells)  # killed
    assert ledger(host="another machine", pid=ended.pid, cells=open_cells)
    assert ledger(cells=open_cells)  # of a version that did not note it
