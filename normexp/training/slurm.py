"""Slurm: ask to start a job again when its time is over."""

import os
import re
import subprocess

from lightning_fabric.plugins.environments import SLURMEnvironment


def preempted() -> bool:
    """Whether Slurm gives the place of this job to another one. It then sends SIGTERM, as `scancel` does, and does not
    start a job again that ends by itself in its grace time."""
    if not SLURMEnvironment.detect():
        return False
    command = ["scontrol", "--oneliner", "show", "job", os.environ["SLURM_JOB_ID"]]
    try:
        shown = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return False
    found = re.search(r"\bPreemptTime=(\d\S*)", shown)  # `None` where it is not preempted
    return found is not None


def requeue() -> str | None:
    """Ask Slurm to start this batch job again; only its first process asks. Returns what was done in a few words, or
    None outside a batch job."""
    if not SLURMEnvironment.detect() or os.environ.get("SLURM_PROCID", "0") != "0":
        return None
    job = os.environ["SLURM_JOB_ID"]
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    try:
        subprocess.run(["scontrol", "requeue", job], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        return f"Slurm did not take job {job} back ({str(why).strip()})"
    return f"Slurm starts job {job} again"
