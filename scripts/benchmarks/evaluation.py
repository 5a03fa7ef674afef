"""The evaluation of the test images (loss, accuracy, each answer), against the forward pass alone in its best
batches."""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from normexp.build import build
from normexp.composition import compose
from normexp.training.lightning import keep_freed_memory, quiet_lightning
from normexp.training.summarize import evaluate, evaluate_each

from .loop import MODELS, OF_TEXT

OF_IMAGES = [model for model in MODELS if model not in OF_TEXT]
BATCHES = (256, 512, 2048)  # of the forward pass alone; the fastest one counts
WAYS = {"loss and accuracy": evaluate, "and each answer": evaluate_each}


def ways_of(model: str, overrides: list[str]) -> tuple[dict[str, Callable[[], None]], int]:
    """Each way to pass over the test images, and their number."""
    parts = build(*compose([*MODELS[model], "recipe=plain", "norm=batchnorm", "monitor=none", *overrides]))
    trainer = parts.make_trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    parts.data.trainer = trainer
    module, device = parts.module.to(trainer.strategy.root_device).eval(), trainer.strategy.root_device
    parts.data.load()
    inputs = parts.data.rows("test", device).x

    def forward(size: int) -> None:
        with torch.inference_mode():
            for part in inputs.split(size):
                module.logits_of(part)

    def ours(score: Callable) -> None:
        score(module, parts.data.test_dataloader(), trainer)

    ways = {f"forward {size}": lambda size=size: forward(size) for size in BATCHES}
    ways |= {name: lambda score=score: ours(score) for name, score in WAYS.items()}
    return ways, len(inputs)


def seconds(work: Callable[[], None], clock: Callable[[], float]) -> float:
    started = clock()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return clock() - started


def compare(model: str, options: argparse.Namespace) -> list[dict]:
    ways, images = ways_of(model, options.overrides)
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[options.clock]
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds + 1):  # the first round warms up
        for name, work in ways.items():
            times[name].append(seconds(work, clock))
    times = {name: taken[1:] for name, taken in times.items()}
    best = min((name for name in ways if name not in WAYS), key=lambda name: statistics.median(times[name]))
    rows = []
    for name in WAYS:
        ratios = [own / alone for own, alone in zip(times[name], times[best], strict=True)]
        own, alone = statistics.median(times[name]), statistics.median(times[best])
        rows.append(
            {
                "model": model, "what": name, "images": images, "ratio": statistics.median(ratios),
                "low": min(ratios), "high": max(ratios), "ms": 1e3 * own, "forward_ms": 1e3 * alone,
                "forward_batch": int(best.split()[1]),
                "device": "cuda" if torch.cuda.is_available() else "cpu",
            }
        )  # fmt: skip
    return rows


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py evaluation", description=__doc__)
    parser.add_argument(
        "--models", default=",".join(OF_IMAGES), help="separated by commas (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: blind to others")
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    quiet_lightning()
    keep_freed_memory()
    rows = [row for model in options.models.split(",") for row in compare(model, options)]
    table = Table("over forward", "range", "model", "what", "images", "ms", "forward ms", "its batches")
    for row in rows:
        spread, times = (
            f"{row['low']:.2f}..{row['high']:.2f}",
            (f"{row['ms']:.1f}", f"{row['forward_ms']:.1f}"),
        )
        what = (row["model"], row["what"], f"{row['images']:,}")
        table.add_row(f"{row['ratio']:.2f}", spread, *what, *times, str(row["forward_batch"]))
    Console(width=110).print(table)
    return rows
