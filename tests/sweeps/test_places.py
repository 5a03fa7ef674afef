"""Real runs at every place: killed, interrupted and asked for twice, and each is trained once and to its end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forked import until

from normexp.runs import load_summaries

ROOT = Path(__file__).parents[2]
LOCAL = os.environ | {"RAY_ADDRESS": "local"}
RUN = ["name=runs", "model.width=16", "batch_size=32", "monitor=none", "trainer=cpu", "val_every_n_steps=100"]
PLACES = {"here": ["--workers", "1"], "inside": ["--workers", "0"]}
PLACES |= {place: ["--place", place, "--workers", "1"] for place in ("local", "ray")}
PACKAGES = {"local": "submitit", "ray": "ray"}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def start(outputs: Path, *arguments: str, **more) -> subprocess.Popen:
    command = [sys.executable, "train.py", "-m", *RUN, f"outputs={outputs}", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=ROOT, text=True, env=LOCAL, **pipes, **more)


def end(process: subprocess.Popen) -> tuple[int, str]:
    """The exit status of a command, and what it printed."""
    out, _ = process.communicate()
    return process.returncode, out


def saved(outputs: Path) -> list[Path]:
    return list(outputs.rglob("last.ckpt"))


def states(outputs: Path) -> list[str]:
    record = max(outputs.glob("runs/.sweeps/*/sweep.json"))
    return [cell["state"] for cell in json.loads(record.read_text())["cells"]]


def process_of(log: Path) -> int:
    """The process that writes a run's log."""
    for link in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if os.readlink(link) == str(log):
                return int(link.parts[2])
        except OSError:  # it has ended, or is another user's
            continue
    raise AssertionError(f"nobody writes {log}")


@pytest.fixture(params=PLACES)
def place(request):
    if package := PACKAGES.get(request.param):
        pytest.importorskip(package)
    return request.param


def test_a_sweep_that_is_interrupted_goes_on_by_the_same_command_and_then_has_nothing_to_do(place, tmp_path):
    """The curves are those of a sweep that was not interrupted."""
    arguments = [*PLACES[place], "seed=0,1", "max_steps=3000"]
    process = start(tmp_path, *arguments)
    until(lambda: saved(tmp_path))
    process.send_signal(signal.SIGINT)
    status, out = end(process)
    assert status == 130, out
    assert "the same command goes on from here" in out
    assert sorted(states(tmp_path)) == ["interrupted", "planned"]
    status, out = end(start(tmp_path, *arguments))
    assert (status, states(tmp_path)) == (0, ["completed"] * 2), out
    assert "2 runs, skipped" in end(start(tmp_path, *arguments))[1]
    assert end(start(tmp_path / "whole", "--workers", "2", *arguments[-2:]))[0] == 0
    tables = [load_summaries(place / "runs", {"seed": [0, 1]}) for place in (tmp_path, tmp_path / "whole")]
    losses = [table["test/loss"].tolist() for table in tables]
    assert losses[0] == losses[1]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("place", ["here", "local"], indirect=True)
def test_a_killed_process_breaks_no_sweep(place, tmp_path):
    process = start(tmp_path, *PLACES[place], "seed=0,1", "max_steps=3000")
    until(lambda: saved(tmp_path))
    os.kill(process_of(next(tmp_path.rglob("*-s0-*.log"))), signal.SIGKILL)
    status, out = end(process)
    assert status == 0, out
    assert "try 2 of 3" in out
    assert states(tmp_path) == ["completed"] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_job_whose_time_is_over_is_queued_again_and_goes_on_from_its_checkpoint(place, tmp_path):
    """As Slurm sends USR2 before a time limit."""
    process = start(tmp_path, *PLACES[place], "seed=0", "max_steps=3000")
    until(lambda: saved(tmp_path))
    (log,) = tmp_path.rglob("logs/mlp/*.log")
    os.kill(process_of(log), signal.SIGUSR2)
    status, out = end(process)
    assert status == 0, out
    assert "resuming from checkpoints/last.ckpt" in log.read_text()
    assert "again: " not in out


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_runs_end_with_a_checkpoint_when_their_sweep_is_killed(tmp_path):
    process = start(tmp_path, "--workers", "2", "seed=0,1", "max_steps=30000")
    until(lambda: len(saved(tmp_path)) == 2)
    workers = [process_of(log) for log in tmp_path.rglob("logs/mlp/*.log")]
    process.kill()
    end(process)
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert all("checkpoint kept" in log.read_text() for log in tmp_path.rglob("logs/mlp/*.log"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR2])
def test_a_signal_that_reaches_all_processes_is_answered_once(tmp_path, number):
    """As a terminal sends it, and Slurm: the server that forks the processes stays, so their own ends are seen."""
    process = start(tmp_path, "--workers", "1", "seed=0,1", "max_steps=3000", start_new_session=True)
    until(lambda: saved(tmp_path))
    os.killpg(process.pid, number)
    assert end(process)[0] == 128 + number
    assert states(tmp_path) == ["interrupted", "planned"]


@pytest.mark.parametrize("workers", ["1", "0"])
def test_two_launches_of_one_sweep_share_its_runs(tmp_path, workers):
    processes = [start(tmp_path, "--workers", workers, "seed=0,1,2,3", "max_steps=400") for _ in range(2)]
    ends = [end(process) for process in processes]
    assert [status for status, _ in ends] == [0, 0], ends
    assert len(load_summaries(tmp_path / "runs", {"seed": range(4)})) == 4
    # One that resumes, or trains what is trained, writes a second file of events.
    assert len(list(tmp_path.glob("runs/mlp/*/events.out.tfevents.*"))) == 4
    assert not list(tmp_path.rglob(".lock"))


def test_a_failing_run_is_kept_with_its_traceback_and_the_others_run(tmp_path):
    # the run's folder is in the way: nothing that the plan could see
    assert end(start(tmp_path, "seed=0,1", "max_steps=20"))[0] == 0
    for folder in tmp_path.glob("runs/mlp/*-s0-*"):
        (folder / "summary.json").unlink()
        (folder / ".hydra" / "identity").write_text("0" * 64)
    status, out = end(start(tmp_path, "seed=0,1,2", "max_steps=20"))
    assert (status, states(tmp_path)) == (1, ["crashed", "skipped", "completed"])
    assert "holds another run" in out
    assert "Traceback" in max(tmp_path.rglob("logs/mlp/*-s0-*.log")).read_text()


def test_how_many_run_at_a_time_changes_no_bit(tmp_path):
    """Also the second run of a process equals a run alone."""
    words = ["norm=batchnorm", "seed=0,1", "max_steps=50"]
    for workers in ("0", "1", "2"):
        assert end(start(tmp_path / workers, "--workers", workers, *words))[0] == 0
    alone = [sys.executable, "train.py", *RUN, f"outputs={tmp_path / 'alone'}", "norm=batchnorm", "seed=1"]
    subprocess.run([*alone, "max_steps=50", "threads=1"], cwd=ROOT, check=True, capture_output=True)
    tables = [load_summaries(tmp_path / name / "runs", {"seed": [1]}) for name in ("0", "1", "2", "alone")]
    assert len({table["test/loss"].iloc[0] for table in tables}) == 1
    assert {table["execution.threads"].iloc[0] for table in tables} == {1}
