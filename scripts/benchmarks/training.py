"""Measurements inside one process: a run over a bare loop, monitors, whole families, memory."""

import contextlib
import ctypes
import gc
import io
import itertools
import multiprocessing
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from rich.console import Console

from normexp.config.compose import compose
from normexp.config.run_spec import specs
from normexp.machine import cores
from normexp.training.fit import fit
from normexp.training.lightning import keep_freed_memory
from normexp.training.parts import build_all
from normexp.training.replicas.fit_replicas import fit_replicas

from . import Measured, Options, Pair
from .bare_loop import BareLoop
from .commands import once

MODELS = {
    "mlp": ["model=mlp", "model.depth=3", "model.width=256"],
    "cnn": ["model=cnn"],
    "transformer": ["model=transformer", "model.width=64"],
    "gpt": ["model=gpt", "data=python_docs"],
}
ENDLESS = ["max_steps=1000000", "val_every_n_steps=1000000"]  # without validation; a callback ends the run
WARM_UP = 10  # steps
PACE = 100  # default number of steps between two measurements of the light monitors
# KiB per step. A tensor of one number, kept at each step, takes more than half a KiB. The numbers kept for the charts
# at the end, some dozen every 100 steps, take a fifth of this limit.
LEAK_LIMIT = 0.25


def trained(overrides: list[str], *callbacks: pl.Callback) -> float:
    """Train one run, or replicas if the overrides ask for them. Returns seconds from the first step to the summary."""
    gc.collect()
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        parts = build_all(specs(["recipe=plain", *overrides, f"outputs={place}"]))
        parts[0].monitors.extend(callbacks)
        folders = [Path(place) / str(index) for index in range(len(parts))]
        for folder in folders:
            folder.mkdir()
        console = Console(file=io.StringIO(), force_terminal=True, width=120)
        started = time.perf_counter()
        fit(parts[0], folders[0], console) if len(parts) == 1 else fit_replicas(parts, folders, console)
        return time.perf_counter() - started


class InTurn(pl.Callback):
    """Runs a block of the bare loop after each block of the trainer, so both run under the same load.

    Attributes:
        pairs: milliseconds of a step of (the trainer, the bare loop) for each block.
    """

    def __init__(self, step: Callable[[int], None], options: Options, block: int = PACE):
        self.step, self.rounds, self.block = step, options.rounds(), WARM_UP if options.quick else block
        self.pairs: list[Pair] = []
        self.started = 0.0

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        done = trainer.global_step - WARM_UP
        if done < 0 or done % self.block:
            return
        middle = time.perf_counter()
        for i in range(self.block if done else WARM_UP):
            self.step(trainer.global_step + i)
        end = time.perf_counter()
        if done:
            per_step = 1e3 / self.block
            self.pairs.append((per_step * (middle - self.started), per_step * (end - middle)))
            trainer.should_stop = next(self.rounds, None) is None
        self.started = end


def over_bare(model: str, batch_size: int, *more: str, options: Options) -> Measured:
    """Training as `train.py` does it, with logging, light monitors, TensorBoard and the bar, over the bare loop."""
    data = [] if model == "gpt" else options.data
    overrides = [*MODELS[model], f"batch_size={batch_size}", *ENDLESS, *data]
    in_turn = InTurn(BareLoop(overrides).step, options)
    trained([*overrides, *more], in_turn)
    return in_turn.pairs, {}


def monitors(model: str, name: str, options: Options) -> Measured:
    """Milliseconds of a step with monitors at their default pace, over one without; both beside the bare loop.

    They measure in every block, because at their default pace the cost would drown in the noise of the other steps.
    """
    chosen, full = (compose([f"monitor={of}", "batch_size=128"])[0].monitor for of in (name, "full"))
    nodes = [
        node if name == "light" else full.get(key, node)
        for key, node in chosen.items()
        if "every_n_steps" in node
    ]
    # a set measures twenty times in a run of any length
    pace = next(iter(chosen.values())).every_n_steps or PACE
    for node in nodes:
        node.every_n_steps = WARM_UP
        if "histogram_every_n_steps" in node:
            node.histogram_every_n_steps = None
    overrides = [*MODELS[model], *options.data, *ENDLESS, "batch_size=128", "monitor=none"]
    both = []
    for callbacks in ([], [instantiate(node) for node in nodes]):
        in_turn = InTurn(BareLoop(overrides).step, options, block=WARM_UP)
        trained(overrides, in_turn, *callbacks)
        both.append(in_turn.pairs)
    plain, watched = both
    bare = statistics.median(bare for _, bare in plain)
    without = bare * statistics.median(ours / bare for ours, bare in plain)
    costs = [WARM_UP * (bare * ours / here - without) for ours, here in watched]
    extra = {"every": pace, "in_steps": statistics.median(costs) / without}
    return [(without + cost / pace, without) for cost in costs], extra


def families(overrides: list[str], replicas: int, epochs: int, options: Options) -> Measured:
    """Seconds of a whole run (validation, records, checkpoints, evaluation): of replicas, over one by one. As many
    processes as cores do so side by side."""
    rates = [0.03, 0.1, 0.3, 1.0] if "model=mlp" in overrides else [0.0003, 0.001, 0.003, 0.01]
    root = () if "data=digits" in overrides else options.root  # the digits lie inside scikit-learn
    common = ["monitor=none", *overrides, *root, *["data.train_size=256"] * options.quick]
    together = [*common, f"replicas={{seeds: {replicas // 4}, lr: {rates}}}"]
    length = "max_steps=1" if options.quick else f"max_epochs={epochs}"
    with ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn")) as pool:
        work = [pool.submit(whole_runs, common, together, replicas, length, options) for _ in range(cores())]
        return [pair for done in work for pair in done.result()], {}


def whole_runs(alone: list[str], together: list[str], runs: int, length: str, options: Options) -> list[Pair]:
    """(seconds of a run together, seconds of one alone) of each round, after a round of one step."""
    torch.set_num_threads(1)
    pairs = []
    for number, _ in enumerate(options.rounds()):
        steps = length if number else "max_steps=1"
        pairs.append((trained([*together, steps]) / runs, trained([*alone, steps])))
    return pairs[1:]


STUDIES = {
    "cnn": ["model=cnn", "model.width=16", "optimizer=adam"],
    "resnet": ["model=resnet", "model.depth=8", "optimizer=adam"],
    "transformer": ["model=transformer", "model.depth=3", "model.width=48", "norm=layernorm"],
}
RATES, STUDY_SEEDS = (0.001, 0.003, 0.01), range(4)


def study(model: str, steps: int, options: Options) -> Measured:
    """Seconds of a study of twelve runs by its command, from start to end, over those of twelve bare loops that
    evaluate as often. Both have a process of one thread on each core; the loops are timed without start and data."""
    steps = 20 if options.quick else steps
    common = f"batch_size=128 monitor=none trainer=cpu max_steps={steps}"
    words = [*STUDIES[model], *options.data, *common.split()]
    grid = f"lr={','.join(map(str, RATES))} seed={','.join(map(str, STUDY_SEEDS))}"
    runs = [[*words, f"lr={lr}", f"seed={seed}"] for lr in RATES for seed in STUDY_SEEDS]
    parts, pairs = [runs[core :: cores()] for core in range(cores())], []
    for _ in itertools.islice(options.rounds(), 2):
        with ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn")) as pool:
            bare = max(pool.map(bare_runs, range(cores()), parts, [steps] * cores()))
        with tempfile.TemporaryDirectory() as place:
            own, _ = once(f"train.py -m {' '.join(words)} {grid} recipe=plain outputs={place}")
        pairs.append((own, bare))
    return pairs, {}


def bare_runs(core: int, runs: list[list[str]], steps: int) -> float:
    """Seconds of these runs, one after the other, on one core: ten validations each, and what a run evaluates last.
    The process keeps freed memory, as a run does: that alone is worth a tenth of a CNN's time."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    keep_freed_memory()
    seconds = 0.0
    for run in runs:
        loop = BareLoop(run)
        started = time.perf_counter()
        for i in range(steps):
            loop.step(i)
            if (i + 1) % (steps // 10) == 0:
                loop.evaluate("val")
        loop.evaluate("train")
        loop.evaluate("test")
        seconds += time.perf_counter() - started
    return seconds


class Resident(pl.Callback):
    """Reads the memory of this process under Linux at regular steps, as (step, MiB)."""

    def __init__(self, every_n_steps: int):
        self.every_n_steps = every_n_steps
        self.readings: list[tuple[int, float]] = []

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step % self.every_n_steps == 0:
            gc.collect()
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)  # freed memory that the process keeps would look like a leak
            status = Path("/proc/self/status").read_text()
            self.readings.append((trainer.global_step, int(re.findall(r"VmRSS:\s*(\d+)", status)[0]) / 2**10))


def leak(options: Options, steps: int = 10_000, callbacks: tuple[pl.Callback, ...] = ()) -> Measured:
    """KiB by which memory grows a step of a long run: the median slope between any two of ten readings.

    Memory that is allocated once does not change it. The first reading comes after the first validation.
    """
    steps = 100 if options.quick else steps
    small = ["model=mlp", "model.depth=2", "model.width=32", "norm=batchnorm", "data=digits"]
    watch = Resident(steps // 10)
    trained([*small, f"max_steps={steps}", f"val_every_n_steps={steps // 20}"], *callbacks, watch)
    pairs = itertools.combinations(watch.readings, 2)
    slope = statistics.median(1024 * (later - mib) / (end - step) for (step, mib), (end, later) in pairs)
    return [(slope, LEAK_LIMIT)], {"first_mib": watch.readings[0][1], "last_mib": watch.readings[-1][1]}
