"""Runs under a real Slurm: signals before a time limit and at preemption keep a checkpoint, and the job goes on."""

import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import slurm
from cluster.watching import until

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(slurm.missing()), reason=str(slurm.missing())),
]
RUN = [
    "model.width=16",
    "max_epochs=1500",
    "trainer=cpu",
    "monitor=none",
    "log_every_n_steps=100",
    "data.train_size=160",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as environment:
        yield {**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("whole")
    subprocess.run(
        [sys.executable, "train.py", *RUN, f"outputs={outputs}"], cwd=ROOT, check=True, capture_output=True
    )
    return rows(outputs)


def rows(outputs: Path) -> list[tuple[str, str, str]]:
    (path,) = outputs.rglob("metrics.csv")
    with path.open(newline="") as file:
        return [(row["step"], row["metric"], row["value"]) for row in csv.DictReader(file)]


def ask(environment, *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def training(outputs: Path, after: float = 0.0) -> bool:
    """Whether a checkpoint was written since then."""
    return any(path.stat().st_mtime > after for path in outputs.rglob("last.ckpt"))


def stop_twice(environment, outputs: Path, signal: str) -> None:
    since = 0.0
    for _ in range(2):
        until(lambda since=since: training(outputs, since))
        (job,) = ask(environment, "squeue", "--noheader", "--format=%A").split()
        ask(environment, "scancel", f"--signal={signal}", job)
        # Without an answer the job would run on, or be gone.
        until(lambda: ask(environment, "squeue", "--noheader", "--format=%T") == "PENDING")
        since = time.time()


def check(outputs: Path, whole, logs: str) -> None:
    assert until(lambda: list(outputs.rglob("summary.json")))
    assert logs.count("resuming from checkpoints/last.ckpt") == 2
    assert rows(outputs) == whole
    assert not list(outputs.rglob("hpc_ckpt*"))


def test_submitit_starts_the_job_again(cluster, whole, tmp_path):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    options = {"timeout_min": 30, "max_num_timeout": 5, "cpus_per_task": 1}
    launcher = [
        "hydra/launcher=submitit_slurm",
        *(f"hydra.launcher.{key}={value}" for key, value in options.items()),
    ]
    command = [sys.executable, "train.py", "-m", *launcher, *RUN, f"outputs={tmp_path / 'o'}"]
    with (tmp_path / "launch.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=cluster, stdout=log, stderr=log)
        stop_twice(cluster, tmp_path / "o", "USR2")
        assert process.wait(300) == 0, (tmp_path / "launch.log").read_text()
    logs = "".join(path.read_text() for path in (tmp_path / "o").rglob(".submitit/*/*_log.out"))
    check(tmp_path / "o", whole, logs)


@pytest.mark.parametrize("signal", ["USR1", "USR2"])
def test_batch_script_of_ones_own_starts_again(cluster, whole, tmp_path, signal):
    script = tmp_path / "job.sh"
    train = " ".join([sys.executable, "train.py", *RUN, f"outputs={tmp_path / 'o'}"])
    script.write_text(
        f"#!/bin/bash\n#SBATCH --requeue --open-mode=append\n#SBATCH -o {tmp_path}/log\nexec srun {train}\n"
    )
    ask({**cluster, "PWD": str(ROOT)}, "sbatch", f"--chdir={ROOT}", str(script))
    stop_twice(cluster, tmp_path / "o", signal)
    until(lambda: list((tmp_path / "o").rglob("summary.json")))
    check(tmp_path / "o", whole, (tmp_path / "log").read_text())


def test_job_that_is_preempted_goes_on_when_its_place_is_free(cluster, whole, tmp_path):
    """Slurm sends SIGTERM. A job that ends in its grace time is not started again unless it asks for it."""
    script = tmp_path / "job.sh"
    train = " ".join([sys.executable, "train.py", *RUN, f"outputs={tmp_path / 'o'}"])
    script.write_text(
        f"#!/bin/bash\n#SBATCH --requeue --open-mode=append\n#SBATCH -o {tmp_path}/log\nexec srun {train}\n"
    )
    ask(cluster, "sbatch", "--exclusive", f"--chdir={ROOT}", str(script))
    until(lambda: training(tmp_path / "o"))
    ask(cluster, "sbatch", "--exclusive", "--partition=urgent", "--output=/dev/null", "--wrap=sleep 5")
    until(lambda: list((tmp_path / "o").rglob("summary.json")))
    log = (tmp_path / "log").read_text()
    assert "interrupted by SIGTERM" in log
    assert re.search(r"Slurm starts job \d+ again", log)
    assert "resuming from checkpoints/last.ckpt" in log
    assert rows(tmp_path / "o") == whole


def test_environment_of_the_cluster_is_its_own(cluster):
    assert "SLURM_CONF" not in os.environ
    assert ask(cluster, "sinfo", "--noheader", "--partition=main", "--format=%P") == "main*"
