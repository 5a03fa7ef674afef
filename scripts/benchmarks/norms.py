"""The cost of a norm: its time divided by that of torch's nearest native layer, in alternating rounds of one process.

Columns: forward; forward and backward (`both`, with quartiles over rounds and the project's limit); a training step of
a linear map or convolution, the norm and a ReLU. `hand` is `both` for the form that tutorials write with x.mean() and
x.var().
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import hydra.utils
import torch
from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from .baselines.norm_baselines import ByHand, features, native
from .baselines.norm_limits import ON_CPU, limit

CONFIGS = Path(__file__).parents[2] / "configs" / "norm"
SHAPES = {"dense": (256, 512), "image": (128, 64, 16, 16), "tokens": (32, 64, 128)}
SAMPLE_SECONDS = 0.01  # of one measurement; shorter calls are repeated


def ours(name: str, shape: tuple[int, ...]) -> nn.Module:
    root = OmegaConf.create({"eps": 1e-5, "seed": 0, "norm": OmegaConf.load(CONFIGS / f"{name}.yaml")})
    return hydra.utils.instantiate(root.norm)(features(shape), -1 if len(shape) == 3 else 1)


def forward(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    return lambda: layer(x)


def both(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    gradient, leaves = x.detach().roll(1), [x, *layer.parameters()]

    def work() -> None:
        for leaf in leaves:
            leaf.grad = None
        layer(x).backward(gradient)

    return work


def step(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    c = features(x.shape)
    linear = nn.Conv2d(c, c, 3, padding=1) if x.dim() == 4 else nn.Linear(c, c)
    network = nn.Sequential(linear, layer, nn.ReLU()).to(x.device)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)

    def work() -> None:
        optimizer.zero_grad(set_to_none=True)
        network(x.detach()).square().mean().backward()
        optimizer.step()

    return work


MODES = {"forward": forward, "both": both, "step": step}


def seconds(work: Callable[[], None], repeats: int, clock: Callable[[], float], on_gpu: bool) -> float:
    started = clock()
    for _ in range(repeats):
        work()
    if on_gpu:
        torch.cuda.synchronize()
    return (clock() - started) / repeats


def compare(
    cases: dict[str, Callable[[], None]], rounds: int, measure: Callable[..., float]
) -> dict[str, dict]:
    """For each case, the median and quartiles over rounds of its time divided by that of `native`."""
    repeats, times = {}, {case: [] for case in cases}
    for case, work in cases.items():
        measure(work, 3)  # warm up
        repeats[case] = max(1, int(SAMPLE_SECONDS / measure(work, 3)))
    for _ in range(rounds):
        for case, work in cases.items():
            times[case].append(measure(work, repeats[case]))
    rows = {}
    for case in cases:
        ratios = [a / b for a, b in zip(times[case], times["native"], strict=True)]
        low, ratio, high = statistics.quantiles(ratios)
        rows[case] = {"ratio": ratio, "low": low, "high": high, "us": 1e6 * statistics.median(times[case])}
    return rows


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmark.py norms", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--norms", nargs="+", default=list(ON_CPU), help="names in configs/norm, or all")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--device", choices=["cpu", "cuda"], default=device)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: blind to other processes; for one thread",
    )
    parser.add_argument("--compile", action="store_true", help="compile ours and `hand`, not torch's layer")
    options = parser.parse_args(arguments)
    if options.norms == ["all"]:
        options.norms = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    return options


def main(arguments: list[str]) -> list[dict]:
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    on_gpu = options.device == "cuda"
    maybe_compile = torch.compile if options.compile else lambda layer: layer
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    measure = partial(seconds, clock=clock, on_gpu=on_gpu)
    rows = []
    for shape in options.shapes:
        size = SHAPES[shape]
        title = f"{shape} {size}, {options.device}, {options.threads} threads, torch {torch.__version__}"
        table = Table("norm", *options.modes, "quartiles of both", "limit", "hand", "us", title=title)
        for name in options.norms:
            torch.compiler.reset()  # all norms share one `forward`, and the compiler keeps few graphs of it
            x = torch.randn(size, device=options.device, requires_grad=True)
            builders = {"native": native, "ours": ours, "hand": ByHand}
            try:
                layers = {case: build(name, size).to(x.device) for case, build in builders.items()}
                layers["ours"](x)
            except ValueError:
                continue  # the norm refuses this shape
            row = {"norm": name, "shape": shape, "device": options.device, "compiled": options.compile}
            for mode in options.modes:
                cases = {
                    case: MODES[mode](layer if case == "native" else maybe_compile(layer), x)
                    for case, layer in layers.items()
                    if case != "hand" or (name in ON_CPU and mode == "both")
                }
                row[mode] = compare(cases, options.rounds, measure)
            rows.append(row)
            table.add_row(*cells(row, options.modes))
        Console().print(table)
    return rows


def cells(row: dict, modes: list[str]) -> list[str]:
    both = row.get("both", {})
    ours = both.get("ours")
    quartiles = f"{ours['low']:.2f}..{ours['high']:.2f}" if ours else ""
    hand = f"{both['hand']['ratio']:.2f}" if "hand" in both else ""
    us = f"{ours['us']:.0f}" if ours else ""
    return [
        row["norm"],
        *(f"{row[mode]['ours']['ratio']:.2f}" for mode in modes),
        quartiles,
        str(limit(row["norm"], row["device"], row["compiled"]) or ""),
        hand,
        us,
    ]
