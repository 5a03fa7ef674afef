"""Training through normexp against a bare PyTorch loop over the same tensors, in alternating rounds of one process."""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from pytorch_lightning import Callback
from rich.console import Console
from rich.table import Table

from normexp.build import build, compose
from normexp.parts import Parts
from normexp.training.fit import fit

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
}


def parts_of(model: str, batch_size: int, steps: int, options: list[str], outputs: str) -> Parts:
    fixed = [f"batch_size={batch_size}", f"max_steps={steps}", f"val_every_n_steps={10 * steps}"]
    overrides = [*MODELS[model], *fixed, f"outputs={outputs}", *options]
    return build(*compose(overrides))


class Clock(Callback):
    """Wall and processor seconds of training alone: on a busy machine the processor's are the steadier ones."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def start(self) -> None:
        self.wall -= time.perf_counter()
        self.cpu -= time.process_time()

    def stop(self) -> None:
        self.wall += time.perf_counter()
        self.cpu += time.process_time()

    def on_train_start(self, trainer, module) -> None:
        self.start()

    def on_train_end(self, trainer, module) -> None:
        self.stop()


def bare(parts: Parts, steps: int) -> Clock:
    """The shortest loop that trains this model on this data: no logging, nothing watched."""
    model = parts.module.model.train()
    loader = parts.data.train_dataloader()
    x, y = loader.x, loader.y
    optimizer = parts.module.make_optimizer(model.parameters(), fused=True)
    rows = parts.data.training_order(parts.data.splits["train"]).batches(0).to(x.device)
    convolves = parts.module.channels_last and x.dim() == 4
    clock = Clock()
    clock.start()
    for step in range(steps):
        index = rows[step % len(rows)]
        inputs = x.index_select(0, index)
        if convolves:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(model(inputs), y.index_select(0, index))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    loss.item()  # the device has finished
    clock.stop()
    return clock


def ours(parts: Parts, folder: Path) -> Clock:
    """Training through fit, with logging, TensorBoard, checkpoints and a progress bar."""
    clock = Clock()
    parts.monitors.append(clock)
    fit(parts, folder, Console(file=io.StringIO(), force_terminal=True, width=120))
    return clock


def compare(model: str, batch_size: int, steps: int, rounds: int, options: list[str]) -> dict[str, float]:
    pairs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            reference = bare(parts_of(model, batch_size, steps, options, folder), steps)
            pairs.append((ours(parts_of(model, batch_size, steps, options, folder), Path(folder)), reference))
    wall = sorted(a.wall / b.wall for a, b in pairs)
    cpu = sorted(a.cpu / b.cpu for a, b in pairs)
    return {
        "cpu_ratio": statistics.median(cpu),
        "cpu_lowest": cpu[0],
        "cpu_highest": cpu[-1],
        "wall_ratio": statistics.median(wall),
        "bare_us": 1e6 * statistics.median(b.wall for _, b in pairs) / steps,
        "normexp_us": 1e6 * statistics.median(a.wall for a, _ in pairs) / steps,
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py loop", description=__doc__)
    parser.add_argument("--models", default="mlp", help=f"separated by commas: {', '.join(MODELS)}")
    parser.add_argument("--batch-sizes", default="64,512")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data monitor=none")
    options = parser.parse_args(arguments)
    rows = []
    columns = ("cpu time ratio", "lowest..highest", "wall ratio", "bare us/step", "normexp us/step")
    table = Table("model", "batch", *columns)
    for model in options.models.split(","):
        for batch_size in map(int, options.batch_sizes.split(",")):
            row = compare(model, batch_size, options.steps, options.rounds, options.overrides)
            rows.append({"model": model, "batch_size": batch_size, **row})
            spread = f"{row['cpu_lowest']:.2f}..{row['cpu_highest']:.2f}"
            times = (f"{row['wall_ratio']:.2f}", f"{row['bare_us']:.0f}", f"{row['normexp_us']:.0f}")
            table.add_row(model, str(batch_size), f"{row['cpu_ratio']:.2f}", spread, *times)
    Console().print(table)
    return rows
