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


def bare(parts: Parts, steps: int) -> float:
    """Seconds per step of the shortest loop that trains this model on this data: no logging, nothing watched."""
    model = parts.module.model.train()
    loader = parts.data.train_dataloader()
    x, y = loader.x, loader.y
    optimizer = parts.module.make_optimizer(model.parameters(), fused=True)
    rows = parts.data.training_order(parts.data.splits["train"]).batches(0).to(x.device)
    convolves = parts.module.channels_last and x.dim() == 4
    started = time.perf_counter()
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
    return (time.perf_counter() - started) / steps


def ours(parts: Parts, folder: Path) -> float:
    """Seconds per step through fit, with logging, TensorBoard, checkpoints and a progress bar."""
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    summary = fit(parts, folder, terminal)
    return summary["seconds"] / summary["steps"]


def compare(model: str, batch_size: int, steps: int, rounds: int, options: list[str]) -> dict[str, float]:
    bare_times, our_times = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            bare_times.append(bare(parts_of(model, batch_size, steps, options, folder), steps))
            our_times.append(ours(parts_of(model, batch_size, steps, options, folder), Path(folder)))
    ratios = sorted(a / b for a, b in zip(our_times, bare_times, strict=True))
    return {
        "ratio": statistics.median(ratios),
        "lowest": ratios[0],
        "highest": ratios[-1],
        "bare_us": 1e6 * statistics.median(bare_times),
        "normexp_us": 1e6 * statistics.median(our_times),
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py loop", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["mlp"])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[64, 512])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data monitor=none")
    options = parser.parse_args(arguments)
    rows = []
    table = Table("model", "batch", "ratio", "lowest..highest", "bare us/step", "normexp us/step")
    for model in options.models:
        for batch_size in options.batch_sizes:
            row = compare(model, batch_size, options.steps, options.rounds, options.overrides)
            rows.append({"model": model, "batch_size": batch_size, **row})
            spread = f"{row['lowest']:.2f}..{row['highest']:.2f}"
            times = (f"{row['bare_us']:.0f}", f"{row['normexp_us']:.0f}")
            table.add_row(model, str(batch_size), f"{row['ratio']:.2f}", spread, *times)
    Console().print(table)
    return rows
