"""Lightning's habits that do not suit small experiments, changed in one place."""

import functools
import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric.plugins.environments import (
    LightningEnvironment,
    LSFEnvironment,
    MPIEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)
from pytorch_lightning import Trainer


def quiet_lightning() -> None:
    """Lightning's notes about hardware and tips are not about the experiment; a warning needs no path of a file;
    and without a GPU the NVML check, which Lightning switches on for torch, costs Adam 0.2 ms a step."""
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="The number of training batches .* is smaller than the logging")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
    # every process evaluates the whole split, so there is nothing to synchronize
    warnings.filterwarnings("ignore", message=".*sync_dist=True.*")
    if not torch.cuda.is_available():
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"


def outside_clusters(make_trainer: Callable[..., Trainer]) -> Callable[..., Trainer]:
    """The same trainer, told that no cluster started this process, where that is so: on a machine with Slurm's `srun`
    Lightning would warn of it at every run. A trainer with plugins of its own stays as it is."""
    options: dict[str, Any] = getattr(make_trainer, "keywords", {})
    if options.get("plugins") or _started_by_a_cluster():
        return make_trainer
    return functools.partial(make_trainer, plugins=[LightningEnvironment()])


def _started_by_a_cluster() -> bool:
    """As Lightning decides it; its own question about Slurm is what warns."""
    interactive = SLURMEnvironment.job_name() in ("bash", "interactive")
    by_slurm = "SLURM_NTASKS" in os.environ and not interactive
    others = (TorchElasticEnvironment, LSFEnvironment, MPIEnvironment)
    return by_slurm or any(environment.detect() for environment in others)
