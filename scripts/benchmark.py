"""Measure what normexp costs, as ratios to a reference that runs in turn with it.

    python scripts/benchmark.py steps                    # a training step over that of a bare loop in plain torch
    python scripts/benchmark.py monitors                 # the light monitors in every step, over the bare loop
    python scripts/benchmark.py norms                    # our layers over torch's, forward and backward
    python scripts/benchmark.py commands --against DIR   # whole commands over those of another checkout
    python scripts/benchmark.py growth                   # seconds of a plan and of a table of 10,000 runs

Each line is a ratio: the median over the rounds, and its quartiles. `--seconds` is the time of each case. Use an idle
machine, one thread (OMP_NUM_THREADS=1), and believe ratios, not times.
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from plain_networks import plain
from rich.console import Console
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
ENDLESS = ["max_steps=1000000", "val_every_n_steps=1000000"]  # without validation; a callback ends the run
MODELS = {
    "mlp, batch 64": ["model=mlp", "data=mnist", "batch_size=64"],
    "mlp, batch 512": ["model=mlp", "data=mnist", "batch_size=512"],
    "cnn": ["model=cnn", "data=mnist", "batch_size=64"],
    "resnet": ["model=resnet", "model.depth=8", "data=mnist", "batch_size=64"],
    "transformer": ["model=transformer", "data=mnist", "batch_size=64"],
    "gpt": ["model=gpt", "data=python_docs", "batch_size=16"],
}
BLOCK = 20  # steps between two readings of the clock
Pairs = list[tuple[float, float]]


def rounds(seconds: float, least: int = 3) -> Iterator[int]:
    """The numbers of the rounds, while there is time."""
    end, number = time.monotonic() + seconds, 0
    while number < least or time.monotonic() < end:
        yield number
        number += 1


def bare_step(overrides: list[str]) -> Callable[[int], None]:
    """A step of the shortest loop that trains the network of a run, written in plain torch, on the run's batches, which
    lie in one tensor."""
    from normexp.config.run_spec import specs
    from normexp.training.build import build

    (spec,) = specs(["recipe=plain", *overrides])
    parts = build(spec)
    parts.data.setup("fit")
    loader = parts.data.train_dataloader()
    batches = [batch for batch, _ in zip(loader, range(200), strict=False)]
    inputs, targets = (torch.cat(column) for column in zip(*batches, strict=True))
    size = len(batches[0][0])
    model = plain(spec.choices["model"], spec.config["model"], parts.data.input_shape, parts.data.num_classes)
    assert len(nn.utils.parameters_to_vector(model.parameters())) == sum(
        p.numel() for p in parts.module.parameters()
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    if inputs.dim() == 4 and spec.config["channels_last"]:
        inputs = inputs.contiguous(memory_format=torch.channels_last)

    def step(i: int) -> None:
        rows = torch.randint(len(inputs), (size,))
        logits, answers = model(inputs[rows]), targets[rows]
        if answers.dim() > 1:
            logits, answers = logits.flatten(0, -2), answers.flatten()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, answers).backward()
        optimizer.step()

    return step


class InTurn(pl.Callback):
    """Runs a block of the bare loop after each block of the trainer, so that both run under one load.

    Attributes:
        pairs: seconds of (the trainer's block, the bare loop's).
    """

    def __init__(self, step: Callable[[int], None], seconds: float):
        self.step, self.rounds, self.pairs, self.started = step, rounds(seconds), Pairs(), 0.0

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        """Read the clock at the end of a block."""
        if trainer.global_step % BLOCK:
            return
        middle = time.perf_counter()
        for i in range(BLOCK):
            self.step(i)
        end = time.perf_counter()
        if trainer.global_step > BLOCK:  # the first block warms up
            self.pairs.append((middle - self.started, end - middle))
            trainer.should_stop = next(self.rounds, None) is None
        self.started = end


def in_turn(overrides: list[str], seconds: float, *, light_in_every_step: bool = False) -> Pairs:
    """Train as `train.py` does, in turn with the bare loop."""
    from normexp.config.run_spec import specs
    from normexp.training.build import build
    from normexp.training.train import PreparedRun

    watch = InTurn(bare_step(overrides), seconds)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        every = [
            f"monitor.{name}.every_n_steps=1" for name in ("activations", "gradients") if light_in_every_step
        ]
        (spec,) = specs(["recipe=plain", "optimizer=sgd", *overrides, *ENDLESS, *every, f"outputs={folder}"])
        parts = build(spec)
        parts.monitors.append(watch)
        spec.folder.mkdir(parents=True)
        PreparedRun(parts, spec.folder, Console(file=io.StringIO())).fit()
    return watch.pairs


def steps(given: argparse.Namespace) -> Iterator[tuple[str, Pairs]]:
    """A training step with logging, TensorBoard, the bar and the default monitors, over a bare loop's."""
    for name, overrides in MODELS.items():
        if given.only in name:
            yield name, in_turn(overrides, given.seconds)


def monitors(given: argparse.Namespace) -> Iterator[tuple[str, Pairs]]:
    """A step with the light monitors in every step over a bare loop's; at their default pace they measure 20 times."""
    for name, overrides in MODELS.items():
        if given.only in name:
            yield name, in_turn(overrides, given.seconds, light_in_every_step=True)


def norms(given: argparse.Namespace) -> Iterator[tuple[str, Pairs]]:
    """Our layers over torch's on the same input, forward and backward."""
    from hydra.utils import instantiate

    from normexp.config.compose import compose

    shapes = {"rows": (128, 256), "image": (32, 64, 16, 16), "tokens": (16, 64, 128)}
    twins: dict[tuple[str, str], nn.Module] = {
        ("batchnorm", "rows"): nn.BatchNorm1d(256),
        ("batchnorm", "image"): nn.BatchNorm2d(64),
        ("layernorm", "rows"): nn.LayerNorm(256),
        ("layernorm", "tokens"): nn.LayerNorm(128),
        ("rmsnorm", "tokens"): nn.RMSNorm(128),
        ("groupnorm", "image"): nn.GroupNorm(8, 64),
        ("instancenorm", "image"): nn.InstanceNorm2d(64, affine=True),
    }
    for (name, kind), twin in twins.items():
        if given.only not in f"{name}, {kind}":
            continue
        shape = shapes[kind]
        dim = -1 if kind == "tokens" else 1
        ours = instantiate(compose([f"norm={name}"])[0].norm)(shape[dim], channel_dim=dim)
        x = torch.randn(shape, requires_grad=True)
        pairs = []
        for _ in rounds(given.seconds):
            taken = []
            for layer in (ours, twin):
                start = time.perf_counter()
                for _ in range(50):
                    layer(x).sum().backward()
                taken.append(time.perf_counter() - start)
            pairs.append((taken[0], taken[1]))
        yield f"{name}, {kind}", pairs


COMMANDS = {
    "train.py norm=layernorm": "train.py norm=layernorm outputs=OUT",
    "verify claim=S36": "scripts/verify.py claim=S36 out=OUT",
    "sweep of 8 runs": "train.py -m norm=none,batchnorm,layernorm,groupnorm seed=0,1 max_epochs=3 outputs=OUT",
}


def commands(given: argparse.Namespace) -> Iterator[tuple[str, Pairs]]:
    """Seconds of whole commands here over those in another checkout, in turn."""
    if given.against is None:
        raise SystemExit("Error: --against: is missing; name another checkout")
    for name, argv in COMMANDS.items():
        if given.only in name:
            yield (
                name,
                [(whole(argv, ROOT), whole(argv, given.against.resolve())) for _ in rounds(given.seconds)],
            )


def whole(argv: str, checkout: Path) -> float:
    """Seconds of a command with the code of a checkout, from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        start = time.perf_counter()
        command = [sys.executable, *argv.replace("OUT", folder).split()]
        subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True)
        return time.perf_counter() - start


def growth(given: argparse.Namespace) -> Iterator[tuple[str, Pairs]]:
    """Seconds of a plan of 10,000 runs (30 are allowed) and of a table of as many (20)."""
    argv = "train.py -m norm=none,batchnorm,layernorm,groupnorm,rmsnorm seed=range(2000) --plan outputs=OUT"
    yield "plan of 10,000 runs", [(whole(argv, ROOT), 30.0)]
    from normexp.runs import load_summaries

    with tempfile.TemporaryDirectory() as out:
        of_one_run = f"train.py norm=layernorm max_epochs=1 outputs={out} name=one".split()
        subprocess.run([sys.executable, *of_one_run], cwd=ROOT, check=True, capture_output=True)
        (path,) = Path(out).rglob("summary.json")
        summary = json.loads(path.read_text())
        for seed in range(10_000):
            folder = Path(out) / "many" / f"s{seed}"
            folder.mkdir(parents=True)
            changed = summary | {"config": summary["config"] | {"seed": seed}, "hash": f"{seed:064x}"}
            (folder / "summary.json").write_text(json.dumps(changed))
        start = time.perf_counter()
        load_summaries(Path(out) / "many")
        yield "table of 10,000 runs", [(time.perf_counter() - start, 20.0)]


MEASUREMENTS = {f.__name__: f for f in (steps, monitors, norms, commands, growth)}


def main(arguments: list[str]) -> None:
    """Measure and print one line a case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=MEASUREMENTS)
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name has it")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each case")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, for commands")
    given = parser.parse_args(arguments)
    for name in given.names:
        for case, pairs in MEASUREMENTS[name](given):
            ratios = [ours / reference for ours, reference in pairs]
            low, middle, high = (
                statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
            )
            ours, reference = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(
                f"{name:9} {case:24} {middle:6.3f} ({low:.3f} to {high:.3f}), {len(pairs)} rounds, "
                f"{ours:.4g} s over {reference:.4g} s",
                flush=True,
            )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(sys.argv[1:])
