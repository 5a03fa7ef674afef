"""What trains a family of runs (seeds x rates) soonest on all cores: replicas or runs one by one, a process per core.

Every run does all that a run does: validation, records, checkpoints, the evaluation at its end. `limit` is the speed
that the arithmetic allows: R runs of a batch N, divided by one run of a batch R N.
"""

import argparse
import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor

import torch
from rich.console import Console
from rich.table import Table

from normexp.cores import cores
from normexp.training.replicas.fit_replicas import fit_replicas

from .measure.step_times import BLOCK, train
from .replicas import CLOCKS, abort, enter, one_by_one, seconds, threads_of

MNIST, CIFAR = ("data=mnist", "data.val_size=2000"), ("data=cifar10_jpeg", "data.val_size=2000")
# Name -> (options, replicas of a process, epochs). Sizes are those of the bank's cells.
FAMILIES = {
    "digits_mlp_64": (["data=digits", "model=mlp", "model.width=64", "batch_size=32"], 12, 5),
    "mnist_mlp_64": ([*MNIST, "model=mlp", "model.width=64"], 12, 2),
    "mnist_mlp_128": ([*MNIST, "model=mlp", "model.width=128"], 12, 2),
    "mnist_mlp_256": ([*MNIST, "model=mlp", "model.width=256"], 12, 2),
    "cifar10_cnn_16": ([*CIFAR, "model=cnn", "model.width=16", "optimizer=adam"], 4, 3),
    "mnist_transformer_48": ([*MNIST, "model=transformer", "model.depth=3", "model.width=48"], 4, 1),
}
RATES = (0.03, 0.1, 0.3, 1.0)  # of which each seed has all


def options_of(family: str, given: argparse.Namespace) -> list[str]:
    """Everything but the number and the length of runs."""
    options = FAMILIES[family][0]
    kind = ["norm=layernorm"] if "model=transformer" in options else ["norm=batchnorm"]
    sizes = [] if "data=digits" in options else [f"data.train_size={given.images}"]
    return [*kind, "monitor=none", *options, *sizes, *given.overrides]


def epochs_of(family: str, given: argparse.Namespace) -> int:
    return given.epochs or FAMILIES[family][2]


def family_of(family: str, replicas: int) -> str:
    """Seeds and rates of the replicas of one process."""
    rates = RATES if "mlp" in family else tuple(rate / 100 for rate in RATES)
    return f"replicas={{seeds: {max(1, replicas // len(rates))}, lr: {list(rates)}}}"


def measure(family: str, replicas: int, given: argparse.Namespace) -> list[tuple[float, float]]:
    """In each process: (seconds of a run one by one, seconds of a run together) of each round."""
    options, pairs = options_of(family, given), []
    ways = {one_by_one: (f"replicas={given.alone}", given.alone)}
    ways[fit_replicas] = (family_of(family, replicas), replicas)
    try:
        for number in range(given.rounds + 1):  # the first round warms up, on one step
            length = f"max_epochs={epochs_of(family, given)}" if number else "max_steps=1"
            pairs.append(
                tuple(
                    seconds(train, [*options, length, runs], given.clock)[0] / n
                    for train, (runs, n) in ways.items()
                )
            )
    except BaseException:
        abort()
        raise
    return pairs[1:]


def limit(family: str, replicas: int, given: argparse.Namespace) -> float:
    """`replicas` times the step of a batch N over one step of a batch `replicas` N."""
    options = options_of(family, given)
    size = next((int(o.split("=")[1]) for o in options if o.startswith("batch_size=")), 64)
    ratios = []
    for _ in range(2):
        one, many = (
            statistics.median(train([*options, f"batch_size={n * size}"], 3 * BLOCK)[0].blocks[1:])
            for n in (1, replicas)
        )
        ratios.append(replicas * one / many)
    return statistics.median(ratios)


def row(
    family: str, replicas: int, found: list[list[tuple[float, float]]], given: argparse.Namespace
) -> dict:
    pairs = [pair for process in found for pair in process]
    ratios = [alone / together for alone, together in pairs]
    alone, together = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "family": family, "replicas": replicas, "epochs": epochs_of(family, given),
        "workers": given.workers,
        "clock": given.clock,
        "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios),
        "together_s": together, "alone_s": alone,
        "runs_a_minute": 60 * given.workers / min(alone, together),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
    }  # fmt: skip


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py families", description=__doc__)
    parser.add_argument("--families", default=",".join(FAMILIES), help="default: %(default)s")
    parser.add_argument(
        "--replicas", type=int, help="of a process (default: 12, or 4 of a CNN or transformer)"
    )
    parser.add_argument("--images", type=int, default=5000, help="of MNIST and CIFAR-10 (%(default)s)")
    parser.add_argument("--epochs", type=int, help="default: what is stated beside each family in the code")
    parser.add_argument("--alone", type=int, default=2, help="runs one by one of a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: blind to other processes and to waits"
    )
    parser.add_argument("--workers", type=int, help="processes at once; as many as a sweep would take")
    parser.add_argument("overrides", nargs="*", help="for example data.root=/data")
    given = parser.parse_args(arguments)
    given.workers = given.workers or (1 if torch.cuda.is_available() else cores())
    threads = threads_of(given.workers)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(given.workers, context, enter, (context.Barrier(given.workers), threads))
    rows = []
    with pool:
        for family in given.families.split(","):
            replicas = given.replicas or FAMILIES[family][1]
            jobs = [pool.submit(measure, family, replicas, given) for _ in range(given.workers)]
            rows.append(row(family, replicas, [job.result() for job in jobs], given))
            rows[-1]["limit"] = pool.submit(limit, family, replicas, given).result()
            print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    head = ("ratio", "range", "family", "replicas", "s a run", "one by one", "limit", "runs a minute")
    table = Table(*head, title=f"{given.workers} processes x {threads} threads")
    for r in rows:
        spread, times = f"{r['low']:.2f}..{r['high']:.2f}", (f"{r['together_s']:.2f}", f"{r['alone_s']:.2f}")
        what = (r["family"], str(r["replicas"]), *times, f"{r['limit']:.2f}", f"{r['runs_a_minute']:.0f}")
        table.add_row(f"{r['ratio']:.2f}", spread, *what)
    Console(width=120).print(table)
    return rows
