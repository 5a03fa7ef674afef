"""The cost of monitors: in one run, blocks of steps with monitors alternate with blocks without.

Each watched block holds one measurement. At the default pace, its cost would drown in the noise of the other steps. The
reported cost of training is this cost spread over the default pace, plus the cost of idle hooks at the other steps.
"""

import argparse
import contextlib
import io
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from rich.console import Console
from rich.table import Table

from normexp.build import build
from normexp.composition import compose
from normexp.monitors import Monitor, StepMonitor
from normexp.training.fit import fit

from .baselines.naive_monitor import Naive
from .measure.peak_memory import PeakMemory

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
}

BLOCK = 10  # steps
CALLS = 1000


class Alternating(pl.Callback):
    """Lets the monitors see every second block of steps, and measures the time and peak memory of each block.

    Neighboring blocks run under the same load, so their ratio is more exact than that of two runs. Monitors change
    nothing, so blocks with and without them compute the same.
    """

    def __init__(self, monitors: list[pl.Callback], clock: str):
        self.monitors = monitors
        self.now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
        # For each block: seconds, and MiB at the peak above its start. Odd blocks are watched.
        self.blocks: list[tuple[float, float]] = []
        self.watched = False
        self.idle = 0.0  # seconds that the hooks take in a step without a measurement

    def setup(self, trainer, module, stage):
        for monitor in self.monitors:
            monitor.setup(trainer, module, stage)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step % BLOCK == 0:
            if trainer.global_step:
                self.close(module.device.type)
            self.watched = trainer.global_step // BLOCK % 2 == 1
            self.open(module.device.type)
        self.pass_on("on_train_batch_start", trainer, module, batch, batch_idx)

    def on_before_optimizer_step(self, *arguments):
        self.pass_on("on_before_optimizer_step", *arguments)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.pass_on("on_train_batch_end", trainer, module, outputs, batch, batch_idx)
        # Before the first watched block, at a step without a measurement.
        if trainer.global_step == 1:
            self.time_idle_hooks(trainer, module, outputs, batch, batch_idx)

    def time_idle_hooks(self, trainer, module, outputs, batch, batch_idx):
        started = self.now()
        for monitor in (monitor for monitor in self.monitors if isinstance(monitor, Monitor)):
            for _ in range(CALLS):
                monitor.on_train_batch_start(trainer, module, batch, batch_idx)
                monitor.on_before_optimizer_step(trainer, module, trainer.optimizers[0])
                monitor.on_train_batch_end(trainer, module, outputs, batch, batch_idx)
        self.idle = (self.now() - started) / CALLS

    def pass_on(self, hook: str, *arguments: Any) -> None:
        if self.watched:
            for monitor in self.monitors:
                getattr(monitor, hook)(*arguments)

    def on_train_end(self, trainer, module):
        self.close(module.device.type)
        for monitor in self.monitors:
            if isinstance(monitor, StepMonitor):
                monitor.release()

    def open(self, device: str) -> None:
        self.memory = PeakMemory(device)
        self.started = self.now()

    def close(self, device: str) -> None:
        if device == "cuda":
            torch.cuda.synchronize()
        self.blocks.append((self.now() - self.started, self.memory.rise()))


def nodes(monitor: str) -> dict[str, Any]:
    """The configured monitors of a set, by name. Charts are written once per run and do not count."""
    config = compose([f"monitor={monitor}", "batch_size=128"])[0].monitor
    return {name: node for name, node in config.items() if "every_n_steps" in node}


def case(name: str) -> tuple[list[pl.Callback], int]:
    """(monitors, default number of steps between measurements)."""
    if name == "naive":
        return [Naive()], 1
    chosen = list(nodes("light").values()) if name == "light" else [nodes("full")[name]]
    pace = chosen[0].every_n_steps
    for node in chosen:
        node.every_n_steps = BLOCK
        if "histogram_every_n_steps" in node:
            node.histogram_every_n_steps = None
    return [instantiate(node) for node in chosen], pace


def compare(model: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Cost of a measurement in steps, and of training at the default pace: medians over all pairs but the first."""
    monitors, pace = case(name)
    steps = 2 * BLOCK * (options.pairs + 1)
    fixed = ["recipe=plain", "batch_size=128", "monitor=none"]
    fixed += [f"max_steps={steps}", f"val_every_n_steps={10 * steps}"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        parts = build(*compose([*MODELS[model], *fixed, *options.overrides]))
        alternating = Alternating(monitors, options.clock)
        parts.monitors.append(alternating)
        fit(parts, Path(folder), Console(file=io.StringIO()))
    without, watched = alternating.blocks[2::2], alternating.blocks[3::2]
    step = statistics.median(seconds for seconds, _ in without) / BLOCK
    measurements = BLOCK if name == "naive" else 1  # in a block
    costs = [(b / a - 1) * BLOCK / measurements for (a, _), (b, _) in zip(without, watched, strict=True)]
    low, cost, high = statistics.quantiles(costs, n=4)  # in steps
    training = 1 + alternating.idle / step
    return {
        "model": model,
        "monitors": name,
        "every": pace,
        "pairs": len(costs),
        "step_ms": 1e3 * step,
        "measurement_ms": 1e3 * step * cost,
        "idle_us": 1e6 * alternating.idle,
        "in_steps": cost,
        "ratio": training + cost / pace,
        "ratio_low": training + low / pace,
        "ratio_high": training + high / pace,
        "memory_mib": max(memory for _, memory in watched) - max(memory for _, memory in without),
        "clock": options.clock,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "device": parts.module.device.type,
        "torch": torch.__version__,
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py monitors", description=__doc__)
    parser.add_argument(
        "--models", default=",".join(MODELS), help="separated by commas (default: %(default)s)"
    )
    every = ",".join(["light", "naive", *nodes("full")])
    parser.add_argument(
        "--monitors",
        default=every,
        help="naive: what a notebook has in place of light (default, all there are: %(default)s)",
    )
    parser.add_argument("--pairs", type=int, default=20, help="of blocks without and with monitors")
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: blind to other processes; for one thread",
    )
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    rows = []
    for model in options.models.split(","):
        rows += [compare(model, name, options) for name in options.monitors.split(",")]
        here = [row for row in rows if row["model"] == model]
        step = f"{statistics.median(row['step_ms'] for row in here):.1f} ms a step"
        title = f"{model}, batch 128, {step}, {torch.get_num_threads()} threads, {options.clock} clock"
        head = ("monitors", "every", "ms", "in steps", "idle us", "training takes", "quartiles", "MiB")
        table = Table(*head, title=title)
        for row in here:
            spread = f"{row['ratio_low']:.3f}..{row['ratio_high']:.3f}"
            cost = (f"{row['measurement_ms']:.2f}", f"{row['in_steps']:.2f}", f"{row['idle_us']:.1f}")
            takes = (f"{row['ratio']:.3f}x", spread, f"{row['memory_mib']:+.0f}")
            table.add_row(row["monitors"], str(row["every"]), *cost, *takes)
        Console(width=100).print(table)
    return rows
