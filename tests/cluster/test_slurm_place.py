"""Sweeps and claims as jobs of a real Slurm: arrays, time limits, lost jobs and drivers, a queue that is full."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import slurm
from cluster.watching import CLAIM, states, two_drivers_share_four_runs, until

from normexp.runs import load_summaries

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(slurm.missing()), reason=str(slurm.missing())),
]
SMALL = ["name=runs", "model.depth=1", "model.width=8", "batch_size=32", "monitor=none", "trainer=cpu"]
LONG = [
    "name=runs",
    "model.width=16",
    "batch_size=32",
    "monitor=none",
    "trainer=cpu",
    "val_every_n_steps=200",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("submitit")
    with slurm.cluster(tmp_path_factory.mktemp("slurm"), cpus=4) as environment:
        yield {**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def nothing_is_left(cluster):
    yield
    subprocess.run(["scancel", "--user=root"], env=cluster)
    until(lambda: not queue(cluster))


def start(environment, log: Path, *arguments: str) -> subprocess.Popen:
    with log.open("a") as file:
        command = [sys.executable, "train.py", "-m", "--place", "slurm", *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)


def queue(environment, *options: str) -> list[str]:
    command = ["squeue", "--noheader", "--array", "--format=%T", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True).stdout.split()


def logs(outputs: Path) -> str:
    return "".join(path.read_text() for path in outputs.glob("runs/.sweeps/*/logs/mlp/*.log"))


def said(outputs: Path) -> str:
    """By submitit and Slurm."""
    return "".join(path.read_text() for path in outputs.glob("runs/.sweeps/*/slurm/*_log.out"))


def curves(outputs: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Run -> its metrics."""
    found = {}
    for path in outputs.rglob("metrics.csv"):
        with path.open(newline="") as file:
            rows = [(row["step"], row["metric"], row["value"]) for row in csv.DictReader(file)]
        found[path.parent.name] = rows
    return found


def test_array_of_eight_that_is_sent_usr2_twice_is_requeued_and_goes_on_to_the_end(cluster, tmp_path):
    """As Slurm does before a time limit. The runs save, submitit puts them back into the queue; each ends as if nothing
    had been."""
    run = ["name=runs", "model.width=16", "max_epochs=400", "monitor=none", "trainer=cpu", "threads=1"]
    process = start(cluster, tmp_path / "screen", *run, "seed=range(0,8)", f"outputs={tmp_path / 'o'}")
    for _ in range(2):
        since = time.time()
        until(
            lambda since=since: sum(path.stat().st_mtime > since for path in tmp_path.rglob("last.ckpt")) > 2
        )
        requeued = said(tmp_path / "o").count("Requeued job")
        subprocess.run(["scancel", "--user=root", "--signal=USR2", "--state=RUNNING"], env=cluster)
        until(lambda requeued=requeued: said(tmp_path / "o").count("Requeued job") > requeued)
    assert process.wait(900) == 0, (tmp_path / "screen").read_text()
    assert states(tmp_path / "o") == ["completed"] * 8
    assert logs(tmp_path / "o").count("interrupted by SIG") >= 3
    assert logs(tmp_path / "o").count("resuming from checkpoints/last.ckpt") >= 3
    resumed = next(path for path in tmp_path.rglob("mlp/*.log") if "resuming" in path.read_text()).stem
    seed = f"seed={resumed.split('-s')[1].split('-')[0]}"
    alone = [sys.executable, "train.py", *run, seed, f"outputs={tmp_path / 'alone'}"]
    subprocess.run(alone, cwd=ROOT, env=cluster, check=True, capture_output=True)
    ((name, rows),) = curves(tmp_path / "alone").items()
    assert curves(tmp_path / "o")[name] == rows


def test_time_limit_shorter_than_the_run(cluster, tmp_path):
    """The run takes a minute of training or more, whatever this machine makes of a step."""
    tried = [sys.executable, "train.py", *LONG, "max_steps=2000", f"outputs={tmp_path / 'tried'}"]
    subprocess.run(tried, cwd=ROOT, env=cluster, check=True, capture_output=True)
    (seconds,) = load_summaries(tmp_path / "tried")["seconds"]
    steps = int(60 / seconds + 1) * 2000
    arguments = [*LONG, f"max_steps={steps}", "seed=0", f"outputs={tmp_path / 'o'}"]
    process = start(cluster, tmp_path / "screen", "--time-limit", "1min", *arguments)
    assert process.wait(1300) == 0, (tmp_path / "screen").read_text()
    assert states(tmp_path / "o") == ["completed"]
    assert "resuming from checkpoints/last.ckpt" in logs(tmp_path / "o")
    assert "again: " not in (tmp_path / "screen").read_text()  # it stayed one job of Slurm


def test_claim_of_a_user_is_trained_by_jobs_from_an_empty_folder(cluster, tmp_path):
    (tmp_path / "mine.yaml").write_text(CLAIM)
    ask = [sys.executable, "-m", "normexp", "verify", "claim=mine.yaml", "--place", "slurm"]
    done = subprocess.run(ask, cwd=tmp_path, env=cluster, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "jobs of Slurm" in done.stdout
    verdict = json.loads((tmp_path / "outputs" / "claims" / "mine" / "verdict.json").read_text())
    assert verdict["verdict"] == "seen here"
    assert verdict["runs"]["trained"] == done.stdout.count("  completed ") == 10
    again = subprocess.run(ask, cwd=tmp_path, env=cluster, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0
    assert "jobs of Slurm" not in again.stdout


def test_finished_runs_are_not_submitted_and_the_screen_is_that_of_any_sweep(cluster, tmp_path):
    arguments = [*SMALL, "max_steps=20", "norm=none,layernorm", "seed=0,1", f"outputs={tmp_path / 'o'}"]
    assert start(cluster, tmp_path / "screen", *arguments).wait(300) == 0
    screen = (tmp_path / "screen").read_text()
    assert "4 runs, jobs of Slurm, 1 thread each" in screen
    assert screen.count("  completed ") == 4
    assert "4 done in" in screen
    assert len(load_summaries(tmp_path / "o" / "runs", {"norm": ["none", "layernorm"], "seed": [0, 1]})) == 4
    began = time.monotonic()
    assert start(cluster, tmp_path / "again", *arguments).wait(300) == 0
    assert "4 runs, skipped" in (tmp_path / "again").read_text()
    assert time.monotonic() - began < 60
    assert len(list(tmp_path.glob("o/runs/.sweeps/*/slurm/*.json"))) == 1


def test_driver_that_is_killed_leaves_its_jobs_and_the_same_command_finds_them(cluster, tmp_path):
    arguments = [*LONG, "max_steps=15000", "seed=0,1,2", f"outputs={tmp_path / 'o'}"]
    process = start(cluster, tmp_path / "first", *arguments)
    until(lambda: queue(cluster).count("RUNNING") == 3)
    process.kill()
    process.wait()
    second = start(cluster, tmp_path / "second", *arguments)
    assert second.wait(600) == 0, (tmp_path / "second").read_text()
    assert "3 runs of an earlier launch still run or wait" in (tmp_path / "second").read_text()
    assert len(list(tmp_path.glob("o/runs/.sweeps/*/slurm/normexp-*.json"))) == 1
    # A second start would have written another file.
    assert len(list(tmp_path.glob("o/runs/mlp/*/events.out.tfevents.*"))) == 3


def test_two_drivers_of_one_sweep_share_its_jobs_and_both_end_well(cluster, tmp_path):
    arguments = [*LONG, "max_steps=4000", "seed=0,1,2,3", f"outputs={tmp_path / 'o'}"]
    two_drivers_share_four_runs(lambda screen: start(cluster, screen, *arguments), tmp_path)


def test_ctrl_c_saves_what_runs_and_takes_the_rest_out_of_the_queue(cluster, tmp_path):
    arguments = [*LONG, "max_steps=20000", "seed=range(0,6)", f"outputs={tmp_path / 'o'}"]
    process = start(cluster, tmp_path / "screen", *arguments)
    until(lambda: len(list(tmp_path.rglob("last.ckpt"))) == 4)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert "the same command goes on from here" in (tmp_path / "screen").read_text()
    assert set(states(tmp_path / "o")) == {"interrupted"}
    assert queue(cluster) == []


def test_job_that_is_killed_is_tried_again_and_one_that_is_cancelled_is_not(cluster, tmp_path):
    arguments = [*LONG, "max_steps=15000", "seed=0,1", f"outputs={tmp_path / 'o'}"]
    process = start(cluster, tmp_path / "screen", *arguments)
    until(lambda: len(list(tmp_path.rglob("last.ckpt"))) == 2)
    workers = subprocess.run(
        ["pgrep", "-f", f"submitit.core._submit.*{tmp_path}"], capture_output=True, text=True
    )
    os.kill(int(workers.stdout.split()[0]), signal.SIGKILL)
    until(lambda: "again: " in (tmp_path / "screen").read_text())
    assert process.wait(600) == 0, (tmp_path / "screen").read_text()
    assert "without a result; try 2 of 3" in (tmp_path / "screen").read_text()
    assert states(tmp_path / "o") == ["completed"] * 2
    assert logs(tmp_path / "o").count("resuming from checkpoints/last.ckpt") == 1
    others = [*LONG[1:], "max_steps=15000", "name=other", "seed=5,6", f"outputs={tmp_path / 'o'}"]
    process = start(cluster, tmp_path / "next", *others)
    until(lambda: queue(cluster).count("RUNNING") == 2)
    subprocess.run(["scancel", "--user=root"], env=cluster)
    assert process.wait(300) == 1
    assert "again: " not in (tmp_path / "next").read_text()


def test_queue_that_is_full_is_asked_again(cluster, tmp_path, monkeypatch):
    """An sbatch of ours refuses the first array in Slurm's words."""
    own = tmp_path / "bin" / "sbatch"
    own.parent.mkdir()
    refusal = (
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"
    )
    own.write_text(
        f"""#!/bin/bash
if mkdir {tmp_path}/refused 2>/dev/null; then echo "{refusal}" >&2; exit 1; fi
exec {slurm.program("sbatch")} "$@"
"""
    )
    own.chmod(0o755)
    environment = {**cluster, "PATH": f"{own.parent}:{cluster['PATH']}"}
    arguments = [*SMALL, "max_steps=20", "seed=0,1", f"outputs={tmp_path / 'o'}"]
    assert start(environment, tmp_path / "screen", *arguments).wait(300) == 0
    screen = (tmp_path / "screen").read_text()
    assert "the queue is full (Batch job submission failed: Job violates" in screen
    assert states(tmp_path / "o") == ["completed"] * 2
