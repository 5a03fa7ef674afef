"""Lightning and the process as small experiments need them: quiet, each process known, freed memory kept, denormal
numbers flushed; and how long a run trains: its steps, epochs and samples.

A step is one optimizer update. Under accumulation it has several batches; the last step of an epoch has those that are
left.
"""

import contextlib
import ctypes
import logging
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.utilities.rank_zero import rank_zero_only

from normexp.config.process import LOGGERS
from normexp.data.base import DataModule
from normexp.monitors.batches import processes

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h of glibc
LARGEST = 32 * 2**20  # the highest threshold that glibc takes
KEPT = 2**30
AT_ONCE = 64 * 2**20  # bytes to ask from the kernel when more are needed
PAUSE = 1  # omp_pause_soft: end the threads, keep the settings


def own_rank() -> int:
    """Number of this process in its run. Process 0 writes the files."""
    return getattr(rank_zero_only, "rank", 0)


def all_gather(value: Any) -> list[Any]:
    """The values of all processes, in their order. Every process must call this."""
    if processes() == 1:
        return [value]
    values = [None] * processes()
    dist.all_gather_object(values, value)
    return values


def of_this_process(values: list[Any]) -> Any:
    """This process's part of what `all_gather` gave. If there were fewer processes then, another one's."""
    return values[dist.get_rank() % len(values)] if processes() > 1 else values[0]


def overrides(instance: object, hook: str, base: type) -> bool:
    """Whether calling this hook does anything: the base's hooks are empty."""
    return hook in vars(instance) or getattr(type(instance), hook) is not getattr(base, hook)


def keep_freed_memory() -> None:
    """Tell glibc's malloc to keep freed memory.

    By default a freed tensor above a threshold (100 KB to 32 MB) goes back to the kernel. The next step then gets new
    pages one by one, filled with zeros. If memory is kept, a run of 150 steps takes 0.84 of the processor time for a
    CNN, 0.88 for a transformer, and the same time for an MLP. The process holds its peak memory until it ends.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return
    asked = ((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, KEPT), (M_TOP_PAD, AT_ONCE))
    for option, value in asked:
        mallopt(option, value)


@contextlib.contextmanager
def denormals(*, flush: bool) -> Iterator[None]:
    """Inside this context the CPU takes denormal numbers for zero, or not. They are below 1.2e-38 in float32, and it
    computes many times more slowly with them. Gradients of networks without norms that have learned are full of them.

    That is a setting of each thread. A new thread has that of the thread that starts it. torch computes the backward
    pass on a CPU in the calling thread, and spreads work over threads that wait for more. So these are ended, and start
    anew when they are needed.
    """
    before = flushed()
    _set(flush)
    try:
        yield
    finally:
        _set(before)


def flushed() -> bool:
    """Whether this thread takes denormal numbers for zero."""
    return bool((torch.full((1,), 1e-40) * 1.0 == 0).item())


def _set(flush: bool) -> None:
    if flushed() == flush:
        return
    torch.set_flush_denormal(flush)
    pause = getattr(ctypes.CDLL(torch._C.__file__), "omp_pause_resource_all", None)
    if pause is not None:  # OpenMP 5.0; not on Windows
        pause(PAUSE)


@dataclass(frozen=True)
class Pace:
    """Steps, epochs and batches of a run in terms of each other."""

    batches: int  # of an epoch
    per_step: int = 1  # batches of a step, `trainer.accumulate_grad_batches`

    @classmethod
    def of(cls, trainer: pl.Trainer) -> "Pace":
        return cls(int(trainer.num_training_batches), trainer.accumulate_grad_batches)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return math.ceil(self.batches / self.per_step)

    def batches_after(self, step: int) -> int:
        """Batches that the first `step` steps have trained on."""
        epochs, rest = divmod(step, self.steps)
        return epochs * self.batches + rest * self.per_step

    def epochs_after(self, step: int) -> float:
        """Passes over the data in the first `step` steps."""
        return self.batches_after(step) / self.batches

    def step_of(self, batch: int) -> int:
        """The step, from 1, to which a batch of the run, from 0, belongs."""
        epochs, rest = divmod(batch, self.batches)
        return epochs * self.steps + rest // self.per_step + 1


def total_steps(config: dict[str, Any], data: DataModule) -> int:
    """Optimizer steps of the whole run."""
    if config["max_steps"] is not None:
        return config["max_steps"]
    batches = len(data.training_order(data.splits["train"]))
    pace = Pace(batches, config["trainer"].get("accumulate_grad_batches", 1))
    return config["max_epochs"] * pace.steps


def length(config: dict[str, Any]) -> dict[str, Any]:
    """Trainer arguments: how long to train, and how often to validate."""
    every, steps = config["val_every_n_steps"], config["max_steps"]
    if steps is not None and every is None:
        every = max(1, steps // 10)
    arguments = {"max_epochs": config["max_epochs"]}
    if steps is not None:
        arguments = {"max_steps": steps, "max_epochs": -1}
    if every is not None:
        # Lightning's own loop counts batches here, the loop in epoch_loop.py counts steps.
        arguments |= {"val_check_interval": every, "check_val_every_n_epoch": None}
    return arguments


def quiet_lightning() -> None:
    """Silence Lightning's notes about hardware and its tips. Print warnings without the path of a file. Without a GPU,
    switch off torch's NVML check, which Lightning switches on: it costs Adam 0.2 ms per step."""
    warnings.formatwarning = lambda message, *_: f"Warning: {message}\n"
    for name in LOGGERS:
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
