"""What watching costs: training with monitors against the same without, in alternating rounds of one process."""

import argparse
import contextlib
import gc
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from naive_monitor import Naive
from rich.console import Console
from rich.table import Table

from normexp.build import build, compose
from normexp.training.fit import fit

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
}
EVERY_STEP = ("activations", "gradients")  # too quick to be told from noise otherwise
Monitors = Callable[[], list[pl.Callback]]


class Meter(pl.Callback):
    """Seconds of training between its first and last step, and how much memory (MiB) it took on top at its peak."""

    def __init__(self, clock: str):
        self.now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]

    def on_train_start(self, trainer, module):
        if module.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self.memory = torch.cuda.memory_allocated() / 2**20
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # Linux: the high-water mark starts over
            self.memory = self.resident("VmRSS")
        self.seconds = self.now()

    def on_train_end(self, trainer, module):
        if module.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds = self.now() - self.seconds
        peak = (
            torch.cuda.max_memory_allocated() / 2**20
            if module.device.type == "cuda"
            else self.resident("VmHWM")
        )
        self.memory = peak - self.memory

    @staticmethod
    def resident(field: str) -> float:
        status = Path("/proc/self/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(field)), float("nan"))


def timed(
    model: str, steps: int, options: argparse.Namespace, monitors: list[pl.Callback]
) -> tuple[float, float]:
    """(seconds per step, MiB at the peak) of one run."""
    fixed = ["batch_size=128", f"max_steps={steps}", f"val_every_n_steps={10 * steps}", "monitor=none"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        parts = build(*compose([*MODELS[model], *fixed, *options.overrides]))
        meter = Meter(options.clock)
        parts.monitors.extend([meter, *monitors])
        fit(parts, Path(folder), Console(file=io.StringIO()))
    del parts
    gc.collect()  # the trainer and its parts refer to each other, and a data set hangs on them
    return meter.seconds / steps, meter.memory


def compare(model: str, steps: int, options: argparse.Namespace, monitors: Monitors) -> dict[str, float]:
    """Each round trains once without and once with, the first of the two in turn."""
    without, watched = [], []
    for index in range(options.rounds):
        for results in (without, watched) if index % 2 else (watched, without):
            results.append(timed(model, steps, options, monitors() if results is watched else []))
    pairs = [(a, b) for (a, _), (b, _) in zip(without, watched, strict=True)]
    ratios = sorted(b / a for a, b in pairs)
    return {
        "ratio": statistics.median(ratios),
        "lowest": ratios[0],
        "highest": ratios[-1],
        "step_ms": 1e3 * statistics.median(a for a, _ in pairs),
        "added_ms": 1e3 * statistics.median(b - a for a, b in pairs),  # per step
        "memory_mib": statistics.median(b - a for (_, a), (_, b) in zip(without, watched, strict=True)),
    }


def nodes(monitor: str) -> dict:
    """The configured monitors of a set, by name."""
    return compose([f"monitor={monitor}", "batch_size=128"])[0].monitor


def whole(model: str, name: str, options: argparse.Namespace) -> dict:
    """A set at its default pace, or the naive callback."""

    def monitors() -> list[pl.Callback]:
        return [Naive()] if name == "naive" else [instantiate(node) for node in nodes(name).values()]

    return {"monitors": name, **compare(model, options.steps, options, monitors)}


def single(model: str, name: str, options: argparse.Namespace) -> dict:
    """One measure of the full set: measured more often than by default, then reckoned at its default pace."""
    node = nodes("full")[name]
    default_pace = node.every_n_steps
    node.every_n_steps = pace = 1 if name in EVERY_STEP else 10
    steps = 6 * pace if name not in EVERY_STEP else 60
    if "histogram_every_n_steps" in node:
        node.histogram_every_n_steps = None
    result = compare(model, steps, options, lambda: [instantiate(node)])
    cost = result["added_ms"] * pace
    return {
        "monitors": name,
        "pace": default_pace,
        "ms_per_measurement": cost,
        "steps_per_measurement": cost / result["step_ms"],
        "ratio": 1 + cost / result["step_ms"] / default_pace,
        "memory_mib": result["memory_mib"],
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py monitors", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument(
        "--monitors", nargs="+", help="sets (light, full), naive, or single measures; default: all"
    )
    parser.add_argument("--steps", type=int, default=400, help="of a run with a whole set")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: blind to other processes; for one thread",
    )
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    measures = [name for name, node in nodes("full").items() if "every_n_steps" in node]
    chosen = options.monitors or ["light", "naive", *measures]
    rows = []
    for model in options.models:
        title = f"{model}, batch 128, {torch.get_num_threads()} threads, torch {torch.__version__}"
        sets = Table("set", "ratio", "lowest..highest", "ms/step without", "memory MiB", title=title)
        singles = Table("measure", "every", "ms", "in steps", "ratio at its pace", "memory MiB", title=title)
        for name in chosen:
            row = single(model, name, options) if name in measures else whole(model, name, options)
            rows.append({"model": model, **row})
            ratio, memory = f"{row['ratio']:.3f}", f"{row['memory_mib']:+.0f}"
            if name in measures:
                cost = (f"{row['ms_per_measurement']:.1f}", f"{row['steps_per_measurement']:.1f}")
                singles.add_row(name, str(row["pace"]), *cost, ratio, memory)
            else:
                spread = f"{row['lowest']:.3f}..{row['highest']:.3f}"
                sets.add_row(name, ratio, spread, f"{row['step_ms']:.2f}", memory)
        for table in (sets, singles):
            if table.row_count:
                Console().print(table)
    return rows
