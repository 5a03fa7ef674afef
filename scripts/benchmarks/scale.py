"""How the time of a step and the peak of memory grow with batch size, depth, width and number of seeds. With `--leak`:
whether memory grows with the steps of a run."""

import argparse
import statistics
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from .measure.leak import growth
from .measure.step_times import BLOCK, train

AXES: dict[str, dict[str, list[Any]]] = {
    "mlp": {
        "batch_size": [4, 16, 64, 256],
        "model.depth": [2, 4, 8, 16],
        "model.width": [64, 128, 256, 512],
        "replicas": [1, 4, 16],
    },
    "cnn": {
        "batch_size": [16, 64, 256],
        "model.depth": ["[1,1,1]", "[2,2,2]", "[4,4,4]"],
        "model.width": [8, 16, 32],
        "replicas": [1, 4],
    },
    "transformer": {
        "batch_size": [16, 64, 256],
        "model.depth": [2, 4, 8],
        "model.width": [32, 64, 128],
        "replicas": [1, 4],
    },
}
LEAST_STEPS, MOST_STEPS = 4 * BLOCK, 200 * BLOCK


def measured(overrides: list[str], steps: int) -> tuple[float, float]:
    """(seconds per step, MiB that training takes, weights included)."""
    times, _ = train(overrides, steps)
    return statistics.median(times.blocks[1:]) / BLOCK, times.rise


def grow(model: str, axis: str, options: argparse.Namespace) -> list[dict]:
    """One row per value: time and memory divided by those of the first value. Each round goes through all values."""
    values = AXES[model][axis]
    fixed = [f"model={model}", *options.overrides]
    plans = []
    for value in values:
        overrides = [*fixed, f"{axis}={value}"]
        warm, _ = measured(overrides, 2 * BLOCK)
        steps = min(MOST_STEPS, max(LEAST_STEPS, int(options.seconds / warm / BLOCK) * BLOCK))
        plans.append((overrides, steps))
    rounds = [[measured(*plan) for plan in plans] for _ in range(options.rounds)]
    rows = []
    for index, value in enumerate(values):
        times, rises = zip(*(found[index] for found in rounds), strict=True)
        ratios = [found[index][0] / found[0][0] for found in rounds]
        first = statistics.median(found[0][1] for found in rounds)
        rows.append(
            {
                "model": model,
                "axis": axis,
                "value": value,
                "ratio": statistics.median(ratios),
                "low": min(ratios),
                "high": max(ratios),
                "memory_ratio": statistics.median(rises) / first,
                "ms": 1e3 * statistics.median(times),
                "memory_mib": statistics.median(rises),
                "options": " ".join(o for o in options.overrides if not o.startswith("data.root")),
                "device": "cuda" if torch.cuda.is_available() else "cpu",
            }
        )
    return rows


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py scale", description=__doc__)
    parser.add_argument(
        "--models", default="mlp", help=f"separated by commas (default: mlp): {', '.join(AXES)}"
    )
    parser.add_argument("--axes", default=",".join(AXES["mlp"]), help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=2, help="of training for each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--leak", action="store_true", help="memory over the steps of one run in place of the table"
    )
    parser.add_argument("--steps", type=int, default=10_000, help="of that run")
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    if options.leak:
        return show_growth(growth(options.overrides, options.steps))
    rows = []
    head = ("time", "range", "memory", "value", "ms a step", "MiB")
    for model in options.models.split(","):
        for axis in options.axes.split(","):
            rows += (found := grow(model, axis, options))
            table = Table(*head, title=f"{model}: {axis}, over the first row")
            for row in found:
                spread = f"{row['low']:.2f}..{row['high']:.2f}"
                ratios = (f"{row['ratio']:.2f}", spread, f"{row['memory_ratio']:.2f}")
                table.add_row(*ratios, str(row["value"]), f"{row['ms']:.2f}", f"{row['memory_mib']:.1f}")
            Console(width=100).print(table)
    return rows


def show_growth(row: dict) -> list[dict]:
    table = Table("ratio", "from", "to", "KiB a step", "limit", "verdict", title="memory of one run")
    ends = [f"{row[f'{end}_mib']:.1f} MiB at step {row[f'{end}_step']}" for end in ("first", "last")]
    verdict = "leaks" if row["leaks"] else "no leak"
    table.add_row(f"{row['ratio']:.3f}", *ends, f"{row['kib_a_step']:.3f}", f"{row['limit']:.2f}", verdict)
    Console(width=120).print(table)
    return [row]
