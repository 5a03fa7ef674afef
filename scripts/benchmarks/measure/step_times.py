"""Time and memory of a run's training steps, measured by a callback in the run."""

import contextlib
import gc
import io
import tempfile
import time
from pathlib import Path

import pytorch_lightning as pl
import torch
from rich.console import Console

from normexp.build import build_all
from normexp.composition import compose
from normexp.training.fit import fit
from normexp.training.replicas.fit_replicas import fit_replicas

from .peak_memory import PeakMemory

BLOCK = 10  # steps


class StepTimes(pl.Callback):
    """Seconds of each block of steps, including logging and monitors.

    Attributes:
        blocks: seconds of all blocks. The first one warms up.
        rise: MiB at the peak of training, above the memory before the run.
    """

    def __init__(self, memory: PeakMemory | None = None):
        self.memory, self.rise = memory, float("nan")
        self.blocks: list[float] = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        if trainer.global_step % BLOCK == 0:
            now = self.clock()
            if trainer.global_step:
                self.blocks.append(now - self.started)
            self.started = now

    def on_train_end(self, trainer, module) -> None:
        self.blocks.append(self.clock() - self.started)
        if self.memory is not None:
            self.rise = self.memory.rise()

    def clock(self) -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


def train(overrides: list[str], steps: int) -> tuple[StepTimes, float]:
    """Train one run, or replicas if the overrides ask for them, without validation before the end. Returns the times of
    its steps, and the seconds from building to the end."""
    fixed = ["recipe=plain", f"max_steps={steps}", f"val_every_n_steps={10 * steps}"]
    gc.collect()
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        started = time.perf_counter()
        parts = build_all(*compose([*fixed, *overrides, f"outputs={place}"]))
        folders = [Path(place) / str(index) for index in range(len(parts))]
        for folder in folders:
            folder.mkdir()
        weights = sum(p.numel() * p.element_size() for part in parts for p in part.module.parameters())
        watch = StepTimes(PeakMemory("cuda" if torch.cuda.is_available() else "cpu"))
        parts[0].monitors.append(watch)
        console = Console(file=io.StringIO())
        if len(parts) == 1:
            fit(parts[0], folders[0], console)
        else:
            fit_replicas(parts, folders, console)
    watch.rise += weights / 2**20
    return watch, time.perf_counter() - started
