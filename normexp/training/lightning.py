"""Lightning's habits that do not suit small experiments, changed in one place."""

import logging
import os
import warnings
from typing import TYPE_CHECKING

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.rank_zero import rank_zero_only

if TYPE_CHECKING:
    from normexp.data.base import DataModule


def own_rank() -> int:
    """Number of this process among those of a run; 0 is the one that writes."""
    return getattr(rank_zero_only, "rank", 0)


def callbacks_of(trainer: pl.Trainer) -> list[pl.Callback]:
    """The trainer's callbacks, which Lightning sets without declaring them."""
    return vars(trainer)["callbacks"]


def data_of(trainer: pl.Trainer) -> "DataModule":
    """The trainer's data, which Lightning sets without declaring it."""
    return vars(trainer)["datamodule"]


def quiet_lightning() -> None:
    """Lightning's notes about hardware and tips are not about the experiment; a warning needs no path of a file;
    and without a GPU the NVML check, which Lightning switches on for torch, costs Adam 0.2 ms a step."""
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="The number of training batches .* is smaller than the logging")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
    # Where Slurm is installed; Lightning asks at each trainer and each fit, and runs start their processes themselves.
    warnings.filterwarnings("ignore", message="The `srun` command is available")
    # every process evaluates the whole split, so there is nothing to synchronize
    warnings.filterwarnings("ignore", message=".*sync_dist=True.*")
    if not torch.cuda.is_available():
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"
