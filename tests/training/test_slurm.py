"""A machine where Slurm is installed: runs say nothing of it, and are its tasks only where `srun` started them."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from lightning_fabric.plugins.environments import LightningEnvironment, SLURMEnvironment
from pytorch_lightning import Trainer

from normexp.training.lightning import outside_clusters

ROOT = Path(__file__).parents[2]
OPTIONS = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_checkpointing": False}


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """A command of this name on the path, which nothing may start."""
    path = tmp_path / "bin" / "srun"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def environment(make_trainer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer = make_trainer(**OPTIONS, enable_progress_bar=False, enable_model_summary=False)
    return type(trainer._accelerator_connector.cluster_environment)


def test_lightning_alone_warns_where_srun_is_installed(srun):
    with pytest.raises(UserWarning, match="`srun` command is available"):
        environment(Trainer)


@pytest.mark.parametrize("variables", [{}, {"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "bash"}])
def test_trainer_of_the_project_is_no_task_of_slurm_and_says_nothing(srun, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert environment(outside_clusters(Trainer)) is LightningEnvironment


def test_trainer_is_a_task_of_slurm_where_srun_started_it(srun, monkeypatch):
    for name in ("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    assert environment(outside_clusters(Trainer)) is SLURMEnvironment


def test_plugins_that_were_asked_for_stay(srun, make_parts):
    parts = make_parts(
        "+trainer.plugins={_target_: lightning_fabric.plugins.environments.TorchElasticEnvironment}"
    )
    assert parts.make_trainer.keywords["plugins"].__class__.__name__ == "TorchElasticEnvironment"


def test_whole_run_says_nothing_of_slurm(srun, tmp_path):
    arguments = ["trainer=cpu", "model.depth=1", "model.width=16", "max_steps=2", f"outputs={tmp_path}/o"]
    found = subprocess.run([sys.executable, "train.py", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "srun" not in found.stdout + found.stderr
    assert list((tmp_path / "o").rglob("summary.json"))
