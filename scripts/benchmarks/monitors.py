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


def compare(
    model: str, monitors: list[pl.Callback], block: int, options: argparse.Namespace
) -> dict[str, float]:
    """Ratio of a watched block to the one before it, median and quartiles over all pairs but the first."""
    steps = 2 * block * (options.pairs + 1)
    fixed = ["batch_size=128", f"max_steps={steps}", f"val_every_n_steps={10 * steps}", "monitor=none"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        parts = build(*compose([*MODELS[model], *fixed, *options.overrides]))
        alternating = Alternating(monitors, block, options.clock)
        parts.monitors.append(alternating)
        fit(parts, Path(folder), Console(file=io.StringIO()))
    without, watched = alternating.blocks[2::2], alternating.blocks[3::2]
    pairs = list(zip(without, watched, strict=True))
    low, ratio, high = statistics.quantiles([b / a for (a, _), (b, _) in pairs], n=4)
    return {
        "ratio": ratio,
        "low": low,
        "high": high,
        "step_ms": 1e3 * statistics.median(a for (a, _), _ in pairs) / block,
        "added_ms": 1e3 * statistics.median(b - a for (a, _), (b, _) in pairs),  # per block
        "memory_mib": max(memory for _, memory in watched) - max(memory for _, memory in without),
    }


def nodes(monitor: str) -> dict:
    """The configured monitors of a set, by name; charts are written once a run and not counted."""
    config = compose([f"monitor={monitor}", "batch_size=128"])[0].monitor
    return {name: node for name, node in config.items() if "every_n_steps" in node}


def whole(model: str, name: str, options: argparse.Namespace) -> dict:
    """The light set at its default pace, one measurement a block; or the naive callback, which measures every step."""
    if name == "naive":
        return {"monitors": name, **compare(model, [Naive()], 10, options)}
    pace = nodes("light")["activations"].every_n_steps
    return {
        "monitors": name,
        **compare(model, [instantiate(node) for node in nodes(name).values()], pace, options),
    }


def single(model: str, name: str, options: argparse.Namespace) -> dict:
    """One measure of the full set: once a block of ten steps, then reckoned at its default pace."""
    node = nodes("full")[name]
    pace, block = node.every_n_steps, 10
    node.every_n_steps = block
    if "histogram_every_n_steps" in node:
        node.histogram_every_n_steps = None
    result = compare(model, [instantiate(node)], block, options)
    in_steps = result["added_ms"] / result["step_ms"]
    return {
        "monitors": name,
        "pace": pace,
        **result,
        "in_steps": in_steps,
        "ratio_at_pace": 1 + in_steps / pace,
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py monitors", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--monitors", nargs="+", help="light, naive, or single measures; default: all")
    parser.add_argument("--pairs", type=int, default=20, help="of blocks without and with monitors")
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: blind to other processes; for one thread",
    )
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    measures = list(nodes("full"))
    chosen = options.monitors or ["light", "naive", *measures]
    rows = []
    for model in options.models:
        title = f"{model}, batch 128, {torch.get_num_threads()} threads, torch {torch.__version__}"
        sets = Table("set", "ratio", "quartiles", "ms/step without", "memory MiB", title=title)
        singles = Table("measure", "every", "ms", "in steps", "ratio at its pace", "memory MiB", title=title)
        for name in chosen:
            row = single(model, name, options) if name in measures else whole(model, name, options)
            rows.append({"model": model, **row})
            memory = f"{row['memory_mib']:+.0f}"
            if name in measures:
                cost = (f"{row['added_ms']:.1f}", f"{row['in_steps']:.1f}", f"{row['ratio_at_pace']:.3f}")
                singles.add_row(name, str(row["pace"]), *cost, memory)
            else:
                spread = f"{row['low']:.3f}..{row['high']:.3f}"
                sets.add_row(name, f"{row['ratio']:.3f}", spread, f"{row['step_ms']:.2f}", memory)
        for table in (sets, singles):
            if table.row_count:
                Console().print(table)
    return rows
