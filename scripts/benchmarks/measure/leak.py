"""Whether a run's memory grows with its steps: resident memory of one long run with light monitors and TensorBoard."""

import contextlib
import gc
import io
import itertools
import math
import statistics
import tempfile
from pathlib import Path

import pytorch_lightning as pl
import torch
from rich.console import Console

from normexp.build import build
from normexp.composition import compose
from normexp.training.fit import fit

from .peak_memory import give_back, resident

SMALL = ["model=mlp", "model.depth=2", "model.width=32", "norm=batchnorm", "monitor=light"]
MARKS = 10  # readings of memory in a run; at the first one the run has allocated everything it needs
# KiB per step. A tensor of one number, kept at each step, takes more than half a KiB. The numbers kept for the charts
# at the end, some dozen every 100 steps, take a fifth of this limit.
LIMIT = 0.25


class Resident(pl.Callback):
    """Reads the memory of this process at regular steps, including memory allocated on a GPU.

    Attributes:
        readings: (step, MiB).
    """

    def __init__(self, every_n_steps: int):
        self.every_n_steps = every_n_steps
        self.readings: list[tuple[int, float]] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        if trainer.global_step % self.every_n_steps == 0:
            gc.collect()
            give_back()
            on_gpu = torch.cuda.memory_allocated() / 2**20 if torch.cuda.is_available() else 0.0
            self.readings.append((trainer.global_step, resident("VmRSS") + on_gpu))


def growth(overrides: list[str], steps: int = 10_000, callbacks: tuple[pl.Callback, ...] = ()) -> dict:
    """Train a small network for `steps`, and compare the memory after a tenth of them with that at the end.

    The growth per step is the median slope between any two readings. Memory that is allocated once does not change it.
    """
    if steps % (2 * MARKS):
        raise ValueError(f"--steps={steps}: memory is read ten times a run; use a multiple of {2 * MARKS}")
    if math.isnan(resident("VmRSS")):
        raise ValueError("--leak: this system does not tell a process its memory; run it under Linux")
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        often = f"val_every_n_steps={steps // (2 * MARKS)}"  # the first reading comes after a validation
        options = ["recipe=plain", *SMALL, f"max_steps={steps}", often, *overrides, f"outputs={place}"]
        parts = build(*compose(options))
        watch = Resident(steps // MARKS)
        parts.monitors += [*callbacks, watch]
        fit(parts, Path(place), Console(file=io.StringIO()))
    (first_step, first), (last_step, last) = watch.readings[0], watch.readings[-1]
    pairs = itertools.combinations(watch.readings, 2)
    kib_a_step = statistics.median(1024 * (later - mib) / (end - step) for (step, mib), (end, later) in pairs)
    return {
        "measured": "resident memory",
        "ratio": last / first,
        "first_step": first_step,
        "first_mib": first,
        "last_step": last_step,
        "last_mib": last,
        "kib_a_step": kib_a_step,
        "limit": LIMIT,
        "leaks": kib_a_step > LIMIT,
        "readings": watch.readings,
    }
