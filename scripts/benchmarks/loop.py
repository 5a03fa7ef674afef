"""Training with normexp against a bare PyTorch loop: alternating blocks of steps in one run."""

import argparse
import contextlib
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from normexp.build import build
from normexp.composition import compose
from normexp.config.run_parts import Parts
from normexp.data.rows import Rows
from normexp.training.fit import fit

from .baselines.tutorial_lightning import fit_as_tutorials_do

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
    "gpt": ["model=gpt", "data=python_docs"],
}
OF_TEXT = {model for model, options in MODELS.items() if "data=python_docs" in options}
WARM_UP = 10  # steps
MIN_BLOCKS = 3
# Steps of a block. 100 is the default pace of the monitors, so each block holds one measurement. A tutorial does the
# same work at every step.
BLOCKS = {"normexp": 100, "tutorial": 25}


def parts_of(model: str, batch_size: int, options: list[str]) -> Parts:
    # No validation, because the bare loop has none.
    fixed = ["recipe=plain", f"batch_size={batch_size}", "max_steps=1000000", "val_every_n_steps=1000000"]
    if model in OF_TEXT:  # what is asked for is the data of the others
        options = [option for option in options if not option.startswith("data")]
    return build(*compose([*MODELS[model], *fixed, *options]))


def bare_step(parts: Parts) -> Callable[[int], None]:
    """`step(i)` of the shortest loop that trains this model on this data, without logging and monitors."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = parts.module.model.train().to(device)
    text = parts.data.kind == "text"
    if text:  # windows of one stream
        train = parts.data.rows("train", torch.device(device), training=True)
    else:
        train = Rows(*(tensor.to(device) for tensor in parts.data.splits["train"]))
    optimizer = parts.module.make_optimizer(model.parameters(), fused=True)
    rows = parts.data.training_order(parts.data.splits["train"]).batches(0).to(device)
    convolves = parts.module.channels_last and not text

    def step(i: int) -> None:
        inputs, targets = train.take(rows[i % len(rows)])
        if convolves and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        logits = model(inputs)
        if text:
            logits, targets = logits.flatten(0, -2), targets.flatten()
        loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


class InTurn(pl.Callback):
    """Runs a block of the bare loop after each block of the trainer, so both run under the same load.

    Attributes:
        pairs: (seconds of the trainer, seconds of the bare loop) of each block, in processor or wall time.
    """

    def __init__(self, step: Callable[[int], None], block: int, clock: str, seconds: float):
        self.step, self.block, self.deadline = step, block, time.monotonic() + seconds
        self.now = {"wall": time.perf_counter, "cpu": time.process_time}[clock]
        self.pairs: list[tuple[float, float]] = []

    def clock(self) -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return self.now()

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        counted = trainer.global_step - WARM_UP
        if counted < 0 or counted % self.block:
            return
        middle = self.clock()
        for i in range(self.block if counted else WARM_UP):
            self.step(trainer.global_step + i)
        end = self.clock()
        if counted:
            self.pairs.append((middle - self.started, end - middle))
        self.started = end
        if time.monotonic() > self.deadline and len(self.pairs) >= MIN_BLOCKS:
            trainer.should_stop = True


def compare(model: str, batch_size: int, options: argparse.Namespace) -> list[dict]:
    """One row per requested loop: normexp, and Lightning as its tutorials use it."""
    rows = []
    for name in options.loops.split(","):
        if name == "tutorial" and model in OF_TEXT:  # tutorials read images
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            overrides = [*options.overrides, f"outputs={folder}"]
            reference = bare_step(parts_of(model, batch_size, overrides))
            in_turn = InTurn(reference, BLOCKS[name], options.clock, options.seconds)
            parts = parts_of(model, batch_size, overrides)
            if name == "normexp":
                parts.monitors.append(in_turn)
                fit(parts, Path(folder), Console(file=io.StringIO(), force_terminal=True, width=120))
            else:
                os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # as Lightning leaves it
                fit_as_tutorials_do(parts, Path(folder), [in_turn])
        pairs = in_turn.pairs
        low, ratio, high = statistics.quantiles((a / b for a, b in pairs), n=4, method="inclusive")
        own, bare = (1e6 / BLOCKS[name] * statistics.median(side) for side in zip(*pairs, strict=True))
        row = {
            "model": model,
            "batch_size": batch_size,
            "loop": name,
            "ratio": ratio,
            "low": low,
            "high": high,
        }
        rows.append(row | {"us": own, "bare_us": bare, "blocks": len(pairs)})
    return rows


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py loop", description=__doc__)
    parser.add_argument("--models", default="mlp", help=f"separated by commas: {', '.join(MODELS)}")
    parser.add_argument("--batch-sizes", default="64,512")
    parser.add_argument("--seconds", type=float, default=30, help="for each row, at least three blocks")
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: blind to other processes"
    )
    parser.add_argument(
        "--loops", default="normexp", help="normexp,tutorial: also Lightning as its tutorials use it"
    )
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data monitor=none")
    options = parser.parse_args(arguments)
    rows = []
    for model in options.models.split(","):
        for batch_size in map(int, options.batch_sizes.split(",")):
            rows += compare(model, batch_size, options)
    table = Table("over bare", "quartiles", "loop", "model", "batch", "us/step", "bare us/step", "blocks")
    for row in rows:
        spread, times = f"{row['low']:.2f}..{row['high']:.2f}", (f"{row['us']:.0f}", f"{row['bare_us']:.0f}")
        cells = (f"{row['ratio']:.2f}", spread, row["loop"], row["model"], str(row["batch_size"]))
        table.add_row(*cells, *times, str(row["blocks"]))
    Console(width=110).print(table)
    return rows
