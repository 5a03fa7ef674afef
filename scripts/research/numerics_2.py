"""Measure how far NUMERICS = 2 moved accuracies on color images: `python scripts/research/numerics_2.py OUTPUTS`.

Twelve settings of CIFAR-10 are trained at two seeds each as NUMERICS = 1 did (torch's channels-last kernel of group
norm, denormal numbers kept) and as NUMERICS = 2 does (centered inputs, denormal numbers flushed). The table in
docs/data/numerics_2.json has every accuracy, and the largest move of an accuracy and of a difference to `none` beside
the difference that another seed makes.
"""

import itertools
import json
import statistics
import sys
from pathlib import Path

import normexp
from normexp.norms import kernels

TABLE = Path(__file__).parents[2] / "docs" / "data" / "numerics_2.json"
SETTINGS = {
    "cnn, batch 64": ["model=cnn", "batch_size=64", "lr=0.003"],
    "cnn, batch 16": ["model=cnn", "batch_size=16", "lr=0.001"],
    "resnet, batch 64": ["model=resnet", "model.depth=8", "batch_size=64", "lr=0.003"],
}
NORMS = ("none", "layernorm", "groupnorm", "instancenorm")
SHARED = [
    *(
        "recipe=plain",
        "optimizer=adamw",
        "schedule=warmup_cosine",
        "data=cifar10_jpeg",
        "data.train_size=5000",
    ),
    *("max_steps=300", "monitor=none", "logger=csv", "trainer=cpu", "threads=1"),
]
SEEDS = (0, 1)


def accuracy(outputs: str, words: list[str], norm: str, seed: int, numerics: int) -> float:
    """The test accuracy of one run."""
    centers = kernels.cancels
    kernels.cancels = centers if numerics == 2 else lambda x: False
    try:
        flush = f"flush_denormal={str(numerics == 2).lower()}"
        place = f"outputs={outputs}/numerics_{numerics}"
        run = normexp.train(*SHARED, *words, f"norm={norm}", f"seed={seed}", flush, place)
    finally:
        kernels.cancels = centers
    return run.summary["metrics"]["test/accuracy"]


def main(outputs: str) -> None:
    rows = {}
    for (name, words), norm in itertools.product(SETTINGS.items(), NORMS):
        found = {n: [accuracy(outputs, words, norm, seed, n) for seed in SEEDS] for n in (1, 2)}
        rows[f"{name}, {norm}"] = {f"numerics {n}": values for n, values in found.items()}
        print(name, norm, found, flush=True)
    moves = [[b - a for a, b in zip(*row.values(), strict=True)] for row in rows.values()]
    seeds = [abs(values[1] - values[0]) for row in rows.values() for values in row.values()]
    differences = []
    for name in SETTINGS:
        none, *others = (rows[f"{name}, {norm}"] for norm in NORMS)
        for row in others:
            effect = {key: [a - b for a, b in zip(row[key], none[key], strict=True)] for key in row}
            differences += [b - a for a, b in zip(*effect.values(), strict=True)]
    flat = [abs(move) for pair in moves for move in pair]
    table = {
        "accuracies": rows,
        "move of an accuracy": {"median": statistics.median(flat), "largest": max(flat)},
        "mean move": statistics.mean(move for pair in moves for move in pair),
        "move of a difference to none": {
            "median": statistics.median(map(abs, differences)),
            "largest": max(map(abs, differences)),
        },
        "between two seeds": {"median": statistics.median(seeds), "largest": max(seeds)},
    }
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
