"""Replicas trained side by side against the same runs one after the other: seed-steps a second, and equality."""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from normexp.build import CONFIGS, build_all, compose
from normexp.parts import Parts
from normexp.training.fit import fit
from normexp.training.fit_replicas import fit_replicas, why_not
from normexp.training.replica_module import ReplicaModule

MODELS = {
    "mlp": ["model=mlp", "model.width=64"],
    "cnn": ["model=cnn", "model.width=8"],
    "transformer": ["model=transformer", "model.width=32"],
}
TINY = {
    "mlp": ["model.depth=2", "model.width=8"],
    "cnn": ["model.depth=[1,1]", "model.width=4"],
    "resnet": ["model.depth=8", "model.width=4"],
    "transformer": ["model.depth=1", "model.width=32", "model.heads=2"],
    "gpt": ["model.depth=1", "model.width=32", "model.heads=2", "data=python_docs", "data.context_length=8"],
}


def build_replicas(overrides: list[str], count: int, outputs: str) -> list[Parts]:
    return build_all(*compose([*overrides, f"replicas={count}", f"outputs={outputs}"]))


def seconds(function, *arguments) -> float:
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        function(*arguments)
        return time.perf_counter() - start


def compare(model: str, count: int, options: argparse.Namespace) -> dict:
    """Whole fits, with logging, monitors, checkpoints and the evaluation at the end, in alternating order."""
    console = Console(file=io.StringIO())
    fixed = [
        *MODELS[model],
        f"batch_size={options.batch_size}",
        f"max_steps={options.steps}",
        *options.overrides,
    ]
    ratios, alone, together = [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            folders = [[Path(place) / kind / str(i) for i in range(count)] for kind in ("alone", "together")]
            for folder in (*folders[0], *folders[1]):
                folder.mkdir(parents=True)
            parts = build_replicas(fixed, count, place)
            alone.append(sum(seconds(fit, *pair, console) for pair in zip(parts, folders[0], strict=True)))
            parts = build_replicas(fixed, count, place)
            together.append(seconds(fit_replicas, parts, folders[1], console))
            ratios.append(alone[-1] / together[-1])
    rate = count * options.steps
    return {
        "model": model,
        "replicas": count,
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "together": rate / statistics.median(together),
        "alone": rate / statistics.median(alone),
        "device": "cuda" if torch.cuda.is_available() else f"cpu, {torch.get_num_threads()} threads",
    }


def largest_difference(model: str, norm: str, steps: int = 3) -> float | str:
    """Largest difference in float64 of any weight or buffer of two replicas after some steps from those of the models
    trained alone; or the reason why they cannot be stacked."""
    overrides = [
        f"model={model}",
        *TINY[model],
        f"norm={norm}",
        "batch_size=32",
        "monitor=none",
        "trainer=cpu",
    ]
    parts = build_replicas(overrides, 2, "outputs")
    for replica in parts:
        replica.module.double()
    reason = why_not(parts[0])
    if reason:
        return reason
    alone = build_replicas(overrides, 2, "outputs")
    batches = [list(zip(range(steps), p.data.train_dataloader(), strict=False)) for p in alone]
    together = ReplicaModule([p.module for p in parts], [0.1, 0.1])
    optimizer = torch.optim.SGD(together.parameters(), 0.1, momentum=0.9)
    together.bind()
    for step in range(steps):
        pairs = [_double(own[step][1]) for own in batches]
        optimizer.zero_grad()
        together.training_step(tuple(torch.stack(side) for side in zip(*pairs, strict=True)), step)[
            "loss"
        ].backward()
        optimizer.step()
    worst = 0.0
    for replica, own in enumerate(batches):
        module = alone[replica].module.double().train()
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        for step, batch in own:
            optimizer.zero_grad()
            module.training_step(_double(batch), step)["loss"].backward()
            optimizer.step()
        for name, value in parts[replica].module.state_dict().items():
            worst = max(worst, (value - module.state_dict()[name]).abs().max().item())
    return worst


def _double(batch):
    x, y = batch
    return (x.double() if x.is_floating_point() else x), y


def main(arguments: list[str]) -> list[dict]:
    parser = argparse.ArgumentParser(prog="benchmark.py replicas", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--counts", default="1,4,16")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--equality", action="store_true", help="differences from the runs alone in place of speed"
    )
    parser.add_argument("overrides", nargs="*", help="for example data=mnist data.root=/data")
    options = parser.parse_args(arguments)
    if options.equality:
        return equality()
    table, rows = Table("model", "replicas", "ratio", "range", "seed-steps/s", "one by one", "device"), []
    for model in options.models.split(","):
        for count in map(int, options.counts.split(",")):
            rows.append(row := compare(model, count, options))
            spread = f"{row['low']:.2f}..{row['high']:.2f}"
            speeds = (f"{row['together']:.0f}", f"{row['alone']:.0f}")
            table.add_row(model, str(count), f"{row['ratio']:.2f}", spread, *speeds, row["device"])
    Console().print(table)
    return rows


def equality() -> list[dict]:
    norms = sorted(path.stem for path in (CONFIGS / "norm").glob("*.yaml"))
    table, rows = Table("norm", *TINY, title="largest difference from the run alone, float64"), []
    for norm in norms:
        cells = []
        for model in TINY:
            try:
                found = largest_difference(model, norm)
            except ValueError:  # a model that this norm does not fit
                found = "–"
            cells.append(f"{found:.0e}" if isinstance(found, float) else found[:24])
            rows.append({"norm": norm, "model": model, "difference": found})
        table.add_row(norm, *cells)
    Console(width=200).print(table)
    return rows
