"""What watching costs: within one run, blocks of steps with monitors alternate with blocks without."""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from naive_monitor import Naive
from rich.console import Console
from rich.table import Table

from normexp.build import build, compose
from normexp.monitors import StepMonitor
from normexp.training.fit import fit

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
}


BLOCK = 10  # steps


class Alternating(pl.Callback):
    """Lets the monitors see every second block of steps, and takes the time and peak memory of each block.

    Neighbouring blocks meet the same machine, so their ratio says more than that of two runs. Monitors change nothing,
    so blocks with and without them compute the same.
    """

    def __init__(self, monitors: list[pl.Callback], block: int, clock: str):
        self.monitors, self.block = monitors, block
        self.now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
        self.blocks: list[
            tuple[float, float]
        ] = []  # (seconds, MiB at the peak above the start), watched ones odd
        self.watched = False

    def setup(self, trainer, module, stage):
        for monitor in self.monitors:
            monitor.setup(trainer, module, stage)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if trainer.global_step % self.block == 0:
            if trainer.global_step:
                self.close(module.device.type)
            self.watched = trainer.global_step // self.block % 2 == 1
            self.open(module.device.type)
        self.pass_on("on_train_batch_start", trainer, module, batch, batch_idx)

    def on_before_optimizer_step(self, *arguments):
        self.pass_on("on_before_optimizer_step", *arguments)

    def on_train_batch_end(self, *arguments):
        self.pass_on("on_train_batch_end", *arguments)

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
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # Linux: the high-water mark starts over
        self.memory = torch.cuda.memory_allocated() / 2**20 if device == "cuda" else resident("VmRSS")
        self.started = self.now()

    def close(self, device: str) -> None:
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = self.now() - self.started
        peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else resident("VmHWM")
        self.blocks.append((seconds, peak - self.memory))


def resident(field: str) -> float:
    """Memory of this process in MiB, nan where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(field)), float("nan"))


def nodes(monitor: str) -> dict[str, Any]:
    """The configured monitors of a set, by name; charts are written once a run and not counted."""
    config = compose([f"monitor={monitor}", "batch_size=128"])[0].monitor
    return {name: node for name, node in config.items() if "every_n_steps" in node}


def case(name: str) -> tuple[list[pl.Callback], int, int]:
    """(monitors, steps between measurements by default, and here)."""
    if name == "naive":
        return [Naive()], 1, 1
    chosen = list(nodes("light").values()) if name in ("light", "idle") else [nodes("full")[name]]
    pace = chosen[0].every_n_steps
    for node in chosen:
        # Once a block: at the default pace the cost would drown in noise.
        node.every_n_steps = BLOCK if name != "idle" else 10**9
        if "histogram_every_n_steps" in node:
            node.histogram_every_n_steps = None
    monitors = [instantiate(node) for node in chosen]
    return monitors, *((1, 1) if name == "idle" else (pace, BLOCK))


def compare(model: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Cost of a measurement, and of training at the default pace: medians over all pairs of blocks but the first."""
    monitors, pace, pace_here = case(name)
    steps = 2 * BLOCK * (options.pairs + 1)
    fixed = ["batch_size=128", f"max_steps={steps}", f"val_every_n_steps={10 * steps}", "monitor=none"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        parts = build(*compose([*MODELS[model], *fixed, *options.overrides]))
        alternating = Alternating(monitors, BLOCK, options.clock)
        parts.monitors.append(alternating)
        fit(parts, Path(folder), Console(file=io.StringIO()))
    without, watched = alternating.blocks[2::2], alternating.blocks[3::2]
    step = statistics.median(seconds for seconds, _ in without) / BLOCK
    costs = [
        (b - a) / BLOCK * pace_here for (a, _), (b, _) in zip(without, watched, strict=True)
    ]  # a measurement
    low, cost, high = statistics.quantiles(costs, n=4)
    return {
        "model": model,
        "monitors": name,
        "every": pace,
        "step_ms": 1e3 * step,
        "measurement_ms": 1e3 * cost,
        "in_steps": cost / step,
        "ratio": 1 + cost / step / pace,
        "ratio_low": 1 + low / step / pace,
        "ratio_high": 1 + high / step / pace,
        "memory_mib": max(memory for _, memory in watched) - max(memory for _, memory in without),
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py monitors", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument(
        "--monitors", nargs="+", help="light, idle (light, never due), naive (light without care) or measures"
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
    for model in options.models:
        names = options.monitors or ["light", "idle", "naive", *nodes("full")]
        rows += [compare(model, name, options) for name in names]
        here = [row for row in rows if row["model"] == model]
        step = f"{statistics.median(row['step_ms'] for row in here):.1f} ms a step"
        title = f"{model}, batch 128, {step}, {torch.get_num_threads()} threads, {options.clock} clock"
        table = Table(
            "monitors", "every", "ms", "in steps", "training takes", "quartiles", "MiB", title=title
        )
        for row in here:
            spread = f"{row['ratio_low']:.3f}..{row['ratio_high']:.3f}"
            cost = (f"{row['measurement_ms']:.2f}", f"{row['in_steps']:.2f}", f"{row['ratio']:.3f}x")
            table.add_row(row["monitors"], str(row["every"]), *cost, spread, f"{row['memory_mib']:+.0f}")
        Console().print(table)
    return rows
