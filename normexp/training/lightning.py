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
    """Number of this process in its run. Process 0 writes the files."""
    return getattr(rank_zero_only, "rank", 0)


def callbacks_of(trainer: pl.Trainer) -> list[pl.Callback]:
    """The trainer's callbacks. Lightning sets them but declares no type."""
    return vars(trainer)["callbacks"]


def data_of(trainer: pl.Trainer) -> "DataModule":
    """The trainer's data module. Lightning sets it but declares no type."""
    return vars(trainer)["datamodule"]


def quiet_lightning() -> None:
    """Silence Lightning's notes about hardware and its tips. Print warnings without the path of a file. Without a GPU,
    switch off torch's NVML check, which Lightning switches on: it costs Adam 0.2 ms per step."""
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="The number of training batches .* is smaller than the logging")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
    # Lightning warns at each trainer and each fit where Slurm is installed. Runs start their processes themselves.
    warnings.filterwarnings("ignore", message="The `srun` command is available")
    # Every process evaluates the whole split, so there is nothing to synchronize.
    warnings.filterwarnings("ignore", message=".*sync_dist=True.*")
    if not torch.cuda.is_available():
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"
