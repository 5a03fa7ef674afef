"""A run over two processes on the CPU: monitors measure both, and it survives the death of either."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from forked import until
from recorded import points

from normexp.config.folder import CONFIGS

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]
SMALL = ["norm=layernorm", "model.width=16", "model.depth=2", "trainer.accelerator=cpu"]


def start(outputs: Path, *overrides: str) -> subprocess.Popen:
    command = [sys.executable, "train.py", *SMALL, f"outputs={outputs}", *overrides]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen) -> str:
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    return output


def worker_of(process: subprocess.Popen) -> int | None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return next((pid for pid, command in commands.items() if b"train.py" in command), None)


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("norm", ["layernorm", "batchnorm_sync"])
def test_monitors_of_two_processes_measure_what_one_does(norm, tmp_path):
    options = ["max_steps=5", "monitor=full", "log_every_n_steps=2", "trainer.precision=64-true"]
    options.append(f"norm={norm}")
    full = yaml.safe_load((CONFIGS / "monitor" / "full.yaml").read_text())
    options += [f"monitor.{name}.every_n_steps=2" for name in full if name != "defaults"]
    finish(start(tmp_path / "one", *options))
    finish(start(tmp_path / "two", *options, "trainer=ddp"))
    one, two = points(tmp_path / "one"), points(tmp_path / "two")
    assert one.keys() == two.keys()
    assert len(one) > 500
    assert {key: (one[key], two[key]) for key in one if not close(one[key], two[key])} == {}


@pytest.mark.parametrize(
    ("signum", "to_worker"),
    [(signal.SIGKILL, True), (signal.SIGKILL, False), (signal.SIGTERM, True), (signal.SIGUSR1, False)],
)
def test_run_whose_process_was_stopped_goes_on_as_if_nothing_had_happened(signum, to_worker, tmp_path):
    options = ["trainer=ddp", "max_epochs=12", "model=transformer", "model.depth=1", "model.dropout=0.2"]
    finish(start(tmp_path / "whole", *options))
    process = start(tmp_path / "stopped", *options)
    until(lambda: list(tmp_path.glob("stopped/*/*/*/checkpoints/last.ckpt")))
    os.kill(worker_of(process) if to_worker else process.pid, signum)
    output = process.communicate(timeout=120)[0]
    assert process.returncode not in (0, None)
    if not to_worker and signum != signal.SIGKILL:
        assert "checkpoint kept; the same command goes on from there" in output
    assert "resuming from checkpoints/last.ckpt" in finish(start(tmp_path / "stopped", *options))
    assert points(tmp_path / "stopped") == points(tmp_path / "whole")
    last = [next((tmp_path / name).rglob("last.ckpt")) for name in ("whole", "stopped")]
    whole, stopped = (torch.load(path, weights_only=True)["state_dict"] for path in last)
    assert all(torch.equal(whole[name], value) for name, value in stopped.items())
