"""Replicas trained together against the same runs one after the other: seed-steps per second, and equality."""

import argparse
import contextlib
import io
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from normexp.build import build_all
from normexp.composition import compose
from normexp.config.run_parts import Parts
from normexp.cores import cores
from normexp.training.fit import fit
from normexp.training.replicas.fit_replicas import fit_replicas

from .measure.replica_equality import equality

MODELS = "mlp:64,mlp:256,cnn:8,cnn:16,transformer:32,transformer:64"


def one_by_one(parts: list[Parts], folders: list[Path], console: Console) -> None:
    for pair in zip(parts, folders, strict=True):
        fit(*pair, console)


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def seconds(train, overrides: list[str], clock: str) -> tuple[float, int]:
    """Time of whole fits with logging, monitors, checkpoints and the evaluation at the end; and parameters of a run.
    All processes start at the same moment, so all measure under the same load."""
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        parts = build_all(*compose(["recipe=plain", *overrides, f"outputs={place}"]))
        folders = [Path(place) / str(index) for index in range(len(parts))]
        for folder in folders:
            folder.mkdir()
        barrier.wait(timeout=1200)
        start = CLOCKS[clock]()
        train(parts, folders, Console(file=io.StringIO()))
        taken = CLOCKS[clock]() - start
        barrier.wait(timeout=1200)
        return taken, sum(p.numel() for p in parts[0].module.parameters())


def enter(shared: Barrier, threads: int) -> None:
    global barrier
    barrier = shared
    torch.set_num_threads(threads)
    threading.Thread(target=follow_parent, daemon=True).start()


def abort() -> None:
    """Let no other process wait for this one."""
    barrier.abort()


def threads_of(workers: int) -> int:
    """Threads of each of so many processes. Those that start from here on inherit them."""
    threads = max(1, cores() // workers)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    return threads


def follow_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


def measure(model: str, width: int, count: int, options: argparse.Namespace) -> tuple[list, int]:
    """Run in each process. Returns (seconds one by one, seconds together) of each round, and parameters of a run."""
    overrides = [f"model={model}", f"model.width={width}", f"batch_size={options.batch_size}"]
    overrides += [f"max_steps={options.steps}", *options.overrides, f"replicas={count}"]
    pairs = []
    try:
        for train in (one_by_one, fit_replicas):  # warm up: work that a process does once is not counted
            seconds(train, [*overrides, "max_steps=2"], options.clock)
        for number in range(options.rounds):
            taken = {}
            for train in (fit_replicas, one_by_one) if number % 2 else (one_by_one, fit_replicas):
                taken[train], parameters = seconds(train, overrides, options.clock)
            pairs.append((taken[one_by_one], taken[fit_replicas]))
    except BaseException:
        abort()
        raise
    return pairs, parameters


def row(model: str, width: int, count: int, found: list[tuple], options: argparse.Namespace) -> dict:
    pairs = [pair for process, _ in found for pair in process]
    ratios = [alone / together for alone, together in pairs]
    alone, together = (statistics.median(side) for side in zip(*pairs, strict=True))
    rate = count * options.steps * options.workers
    return {
        "model": model,
        "width": width,
        "parameters": found[0][1],
        "batch_size": options.batch_size,
        "replicas": count,
        "workers": options.workers,
        "threads": options.threads,
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "together": rate / together,
        "alone": rate / alone,
        "clock": options.clock,
        "options": " ".join(options.overrides),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py replicas", description=__doc__)
    parser.add_argument("--models", default=MODELS, help="model:width, several with commas")
    parser.add_argument("--counts", default="2,4,8,16", help="of replicas")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: blind to other processes")
    parser.add_argument(
        "--workers", type=int, help="processes at once, each with as many runs; as many as a sweep would take"
    )
    parser.add_argument(
        "--equality", action="store_true", help="differences from the runs alone in place of speed"
    )
    parser.add_argument("--norms", help="of the differences, separated by commas (default: all)")
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    if options.equality:
        return equality(options.norms and options.norms.split(","))
    options.workers = options.workers or (1 if torch.cuda.is_available() else cores())
    options.threads = threads_of(options.workers)
    sizes = [(name, int(width)) for name, width in (part.split(":") for part in options.models.split(","))]
    head = (
        "ratio",
        "range",
        "model",
        "width",
        "replicas",
        "seed-steps/s",
        "one by one",
        "processes",
        "device",
    )
    table, rows, console = Table(*head), [], Console(width=120)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        options.workers, context, enter, (context.Barrier(options.workers), options.threads)
    )
    with pool:
        for model, width in sizes:
            for count in map(int, options.counts.split(",")):
                jobs = [pool.submit(measure, model, width, count, options) for _ in range(options.workers)]
                rows.append(r := row(model, width, count, [job.result() for job in jobs], options))
                spread = f"{r['low']:.2f}..{r['high']:.2f}"
                speeds = (
                    f"{r['together']:.0f}",
                    f"{r['alone']:.0f}",
                    f"{options.workers} x {options.threads}",
                )
                table.add_row(
                    f"{r['ratio']:.2f}", spread, model, str(width), str(count), *speeds, r["device"]
                )
    console.print(table)
    return rows
