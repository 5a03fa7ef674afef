"""`compile=true`, and on a GPU `compile=reduce-overhead` (CUDA graphs), against the plain run of each model: the time
of a step, and the number of steps after which compiling pays."""

import argparse
import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterator

import torch
from rich.console import Console
from rich.table import Table

from .measure.step_times import BLOCK, train

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
}
SETTLED = 3 * BLOCK  # steps; after these nothing more is compiled


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """A context in which earlier compiled code is found neither in this process nor on disk."""
    with tempfile.TemporaryDirectory() as place:
        before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = place
        try:
            yield
        finally:
            os.environ.pop("TORCHINDUCTOR_CACHE_DIR")
            if before is not None:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def once(overrides: list[str], steps: int) -> tuple[float, float]:
    """(seconds per step after compiling, all other seconds of the run)."""
    torch._dynamo.reset()
    times, whole = train(overrides, steps)
    step = statistics.median(times.blocks[SETTLED // BLOCK :]) / BLOCK
    return step, whole - steps * step


def compare(model: str, mode: str, options: argparse.Namespace) -> dict:
    fixed = [*MODELS[model], f"batch_size={options.batch_size}", *options.overrides]
    once(fixed, SETTLED + BLOCK)  # warm up
    pairs, costs = [], []
    with empty_cache():
        for _ in range(options.rounds):
            eager, plain = once(fixed, options.steps)
            compiled, more = once([*fixed, f"compile={mode}"], options.steps)
            pairs.append((compiled, eager))
            costs.append(more - plain)
    ratios = [compiled / eager for compiled, eager in pairs]
    compiled, eager = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "compile": mode,
        "model": model,
        "batch_size": options.batch_size,
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "ms": 1e3 * compiled,
        "eager_ms": 1e3 * eager,
        "compile_seconds": costs[0],
        "cached_seconds": statistics.median(costs[1:]) if len(costs) > 1 else None,
        "pays_after_steps": round(costs[0] / (eager - compiled)) if compiled < eager else None,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py compiled", description=__doc__)
    parser.add_argument(
        "--models", default=",".join(MODELS), help="separated by commas (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=150, help="of each run")
    parser.add_argument(
        "--rounds", type=int, default=2, help="the first one compiles, others find the compiled code"
    )
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    if options.steps < SETTLED + BLOCK:
        parser.error(f"--steps={options.steps}: too few to be past compiling; use {SETTLED + BLOCK} or more")
    modes = ["true", "reduce-overhead"] if torch.cuda.is_available() else ["true"]
    rows = [compare(model, mode, options) for model in options.models.split(",") for mode in modes]
    head = (
        "compiled over plain",
        "range",
        "compile",
        "model",
        "ms a step",
        "plain ms",
        "compiling s",
        "again s",
        "pays after",
    )
    table = Table(*head, title=f"batch {options.batch_size}, {torch.get_num_threads()} threads")
    for row in rows:
        spread = f"{row['low']:.2f}..{row['high']:.2f}"
        again = "–" if row["cached_seconds"] is None else f"{row['cached_seconds']:.1f}"
        steps = row["pays_after_steps"]
        pays = "never" if steps is None else f"{steps} steps"
        times = (f"{row['ms']:.2f}", f"{row['eager_ms']:.2f}", f"{row['compile_seconds']:.1f}", again, pays)
        table.add_row(f"{row['ratio']:.2f}", spread, row["compile"], row["model"], *times)
    Console(width=120).print(table)
    return rows
