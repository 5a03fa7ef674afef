"""A machine where Slurm is installed: runs say nothing of it, and tests pass."""

import os
import signal
import subprocess

import pytest
from forked import forked
from lightning_fabric.plugins.environments import LightningEnvironment
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import LambdaCallback

from normexp.training.survive import Interrupted


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """A command of this name on the path, which nothing may start."""
    path = tmp_path / "bin" / "srun"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.filterwarnings("error:The `srun` command")
def test_lightning_alone_warns_where_srun_is_installed(srun):
    with pytest.raises(UserWarning, match="`srun` command is available"):
        Trainer(accelerator="cpu", devices=1, logger=False)


@pytest.mark.filterwarnings("error:The `srun` command")
@pytest.mark.parametrize("steps", [0, 2])
def test_run_is_no_task_of_slurm_and_says_nothing(srun, train, monkeypatch, steps):
    """Where `srun` is not used; a shell that it opened is not either."""
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_JOB_NAME", "bash")
    found = []
    watch = LambdaCallback(
        on_fit_start=lambda trainer, _: found.append(trainer._accelerator_connector.cluster_environment)
    )
    summary, _ = train(f"max_steps={steps}", callbacks=[watch])
    assert summary["status"] == "completed"
    assert all(isinstance(environment, LightningEnvironment) for environment in found)
    assert len(found) == (steps > 0)


SHOWN = "JobId=7 JobState=RUNNING PreemptEligibleTime=2026-11-22T03:41:16 PreemptTime={} TimeLimit=UNLIMITED"


@pytest.mark.parametrize(
    ("number", "preempted", "requeued"),
    [
        (signal.SIGTERM, "2026-11-22T03:41:36", True),
        (signal.SIGTERM, "None", False),  # scancel: the user wants no more of it
        (signal.SIGINT, "2026-11-22T03:41:36", False),
        (signal.SIGUSR1, "None", True),
    ],
)
def test_job_asks_to_be_started_again_unless_it_was_cancelled(
    tmp_path, monkeypatch, number, preempted, requeued
):
    command = tmp_path / "scontrol"
    command.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "{SHOWN.format(preempted)}"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, value in {"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "job.sh", "SLURM_JOB_ID": "7"}.items():
        monkeypatch.setenv(name, value)
    assert Interrupted(number, 5).forward_signal() == ("Slurm starts job 7 again" if requeued else None)
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    assert ("requeue 7\n" in asked) == requeued


@pytest.mark.integration
def test_whole_run_says_nothing_of_slurm(srun, tmp_path):
    arguments = ["trainer=cpu", "model.depth=1", "model.width=16", "max_steps=2", f"outputs={tmp_path}/o"]
    found = forked(*arguments)
    assert found.returncode == 0, found.stderr
    assert "srun" not in found.stdout + found.stderr
    assert list((tmp_path / "o").rglob("summary.json"))


@pytest.mark.parametrize(("code", "ends_well"), [(-15, True), (1, False)])
def test_requeue_that_slurm_ends_together_with_the_job_is_no_error(code, ends_well):
    def handler(number, frame):
        raise subprocess.CalledProcessError(code, ["scontrol", "requeue", "1"])

    stopped = Interrupted(signal.SIGUSR2, 3, handler)
    if ends_well:
        assert stopped.forward_signal() is None
    else:
        with pytest.raises(subprocess.CalledProcessError):
            stopped.forward_signal()
