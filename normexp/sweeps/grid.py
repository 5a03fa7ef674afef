"""A sweep, `train.py -m`: the cells of a grid are composed, planned and run. Before anything starts, each kind of run
is built and tried, and what it will cost is estimated: processor time from a few real steps, and memory."""

import contextlib
import dataclasses
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from normexp.config.compose import Composer
from normexp.config.errors import one_line
from normexp.config.process import typed
from normexp.config.run_spec import RunSpec, kind_of, specs
from normexp.machine import own_memory
from normexp.norms import evaluation_mode
from normexp.sweeps.cell import Cell, cells_of
from normexp.sweeps.engine import place_of, run
from normexp.sweeps.places.place import Options
from normexp.training.fit import TRAIN_SAMPLES
from normexp.training.lightning import keep_freed_memory, length
from normexp.training.parts import Parts, build

SEED = re.compile(r"seed=\d+")
SHOWN = 3  # errors that a message shows; it counts the others


def sweep(
    job_overrides: Sequence[Sequence[str]],
    using: Composer,
    options: Options,
    folder: Path,
    argv: Sequence[str],
) -> int:
    """Run a cell for each list of overrides. Returns the exit status. Raises ValueError with one line before the first
    run starts, if any cell cannot run.

    Args:
        using: composes the cells.
        folder: of this launch.
        argv: the command line of the sweep.
    """
    attempts = _attempts(job_overrides, using)
    valid_specs = [spec for attempt in attempts if not isinstance(attempt, Exception) for spec in attempt]
    place = place_of(valid_specs, options, folder) if valid_specs else None
    skip = print if options.skip_invalid else None
    cells = plan(names(job_overrides), attempts, place.threads if place else 0, skip)
    overrides_of = {
        spec.folder: overrides
        for overrides, cell_specs in zip(job_overrides, attempts, strict=True)
        for spec in (() if isinstance(cell_specs, Exception) else cell_specs)
    }
    first = cells[0].config
    return run(
        cells,
        options,
        folder,
        typed(argv),
        argv=lambda cell: command_of(argv, overrides_of[cell.folder]),
        what="sweep",
        study=Path(first["outputs"], first["name"]),
        place=place,
    )


def _attempts(job_overrides: Sequence[Sequence[str]], using: Composer) -> list[list[RunSpec] | ValueError]:
    """The runs of each cell, or why it cannot run. Those that differ in the seed alone are composed once."""
    attempts: dict[tuple[str, ...], list[RunSpec] | ValueError] = {}
    alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for overrides in job_overrides:
        alike.setdefault(tuple(o for o in overrides if not SEED.fullmatch(o)), []).append(tuple(overrides))
    for shared, (first, *others) in alike.items():
        attempts[first] = attempt = _attempt(first, using)
        if len(others) > 1 and not isinstance(attempt, ValueError) and len(attempt) == 1:
            seeds = [int(o.partition("=")[2]) for cell in others for o in cell if SEED.fullmatch(o)]
            with contextlib.suppress(ValueError):  # the messages of each cell follow
                for cell, spec in zip(others, specs(shared, seeds=seeds, using=using), strict=True):
                    attempts[cell] = [dataclasses.replace(spec, overrides=cell)]
        for cell in others:
            if cell not in attempts:
                attempts[cell] = _attempt(cell, using)
    return [attempts[tuple(overrides)] for overrides in job_overrides]


def _attempt(overrides: Sequence[str], using: Composer) -> list[RunSpec] | ValueError:
    try:
        return specs(overrides, using=using)
    except ValueError as error:
        return error


def names(job_overrides: Sequence[Sequence[str]]) -> list[str]:
    """The name of each cell: the overrides in which cells differ, or all overrides if there is one cell."""
    everywhere = set.intersection(*(set(overrides) for overrides in job_overrides))
    return [
        " ".join(o for o in overrides if o not in everywhere) or " ".join(overrides)
        for overrides in job_overrides
    ]


def command_of(argv: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The command line of one cell: the sweep's flags with the overrides of the cell."""
    flags = [a for a in argv[1:] if a not in ("-m", "--multirun") and (a.startswith("-") or "=" not in a)]
    # A preset's `hydra.mode: MULTIRUN` would make the one cell a sweep again.
    single = ["hydra.mode=RUN"] if any(o.startswith("experiment=") for o in overrides) else []
    return [argv[0], *flags, *overrides, *single]


def plan(
    names: Sequence[str],
    attempts: Sequence[Sequence[RunSpec] | Exception],
    threads: int = 0,
    skip: Callable[[str], None] | None = None,
) -> list[Cell]:
    """The checked cells of a grid. Finished cells are marked as skipped.

    Args:
        names: of each cell, for the screen.
        attempts: the runs of each cell, or why they are none.
        threads: of each run, so that a timed step takes as long as in the run; 0 for all threads of this process.
        skip: is told of cells that cannot run, and the others are planned; without it they are an error.

    Raises ValueError with one line that names the cells that cannot run, or two cells that are the same run.
    """
    if threads:
        torch.set_num_threads(threads)
    cells: list[Cell] = []
    broken: dict[str, list[str]] = {}  # error -> cells
    estimates = Estimates()
    for name, attempt in zip(names, attempts, strict=True):
        try:
            if isinstance(attempt, Exception):
                raise attempt
            seconds = [estimates.seconds(spec) for spec in attempt]
        except Exception as error:
            broken.setdefault(one_line(error), []).append(name)
            continue
        cells += cells_of(attempt, [name] * len(attempt), seconds)
    if broken and not (skip and cells):
        raise ValueError(_describe(broken, len(names)))
    if broken and skip:
        skip(f"left out: {_describe(broken, len(names))}")
    _refuse_twins(cells)
    for cell in cells:
        cell.memory = estimates.memory
        cell.skip_if_finished()
    return cells


def _describe(broken: dict[str, list[str]], total: int) -> str:
    parts = []
    for error, names in list(broken.items())[:SHOWN]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        parts.append(f"{error} [cell {names[0]}{more}]")
    if len(broken) > SHOWN:
        parts.append(f"and {len(broken) - SHOWN} other errors")
    return f"{sum(map(len, broken.values()))} of {total} cells cannot run: {'; '.join(parts)}"


def _refuse_twins(cells: list[Cell]) -> None:
    seen: dict[Path, Cell] = {}
    for cell in cells:
        for folder in cell.folders:
            twin = seen.setdefault(folder, cell)
            if twin is not cell:
                why = "values that only say how a run is computed or where it is kept make no axis of a sweep"
                raise ValueError(f"cells '{twin.name}' and '{cell.name}' are the same run, {folder}: {why}")


TIMED = 0.1  # seconds that are timed at least, after a step that warms up
EVALUATED = 512  # samples that are evaluated to time it
# Measured around steps and evaluations, in seconds of one core; docs/performance.md has the first two.
LOOP_SHARE, LOOP_SECONDS = 0.03, 0.0003  # of a step: recorder, loggers, bar
RUN_SECONDS, SAVE_SECONDS = 0.1, 0.008  # build, folder and summary; records and checkpoints of a validation
THREADS_HELP = 0.7  # n threads take n^-0.7 of the time of one: 0.62 for two
SHARED = 100 * 2**20  # bytes of the files of libraries, as far as a run reads them
IN_STEPS = {"hessian": 75.0, "covariate_shift": 10.0, "gradient_noise": 10.0, "smoothness": 8.0}
OTHER_IN_STEPS = 3.0  # what a measurement of any other monitor takes


class Estimates:
    """Seconds of runs on a CPU. One of each kind is built, which refuses what cannot run; a step is timed for each
    model, norm, data, batch size, optimizer and trainer.

    Args:
        each_norm: False times one norm for all, and builds nothing else.

    Attributes:
        memory: bytes of a process that trains one of them: about what this process holds.
    """

    def __init__(self, *, each_norm: bool = True) -> None:
        self.each_norm = each_norm
        self.memory = 0
        self._runs: dict[Any, float | None] = {}
        self._paces: dict[str, tuple[float, float]] = {}

    def seconds(self, spec: RunSpec) -> float | None:
        """Seconds of a run, from its start to its end; None on a GPU. Raises ValueError for one that cannot run."""
        kind = kind_of(spec) if self.each_norm else self._key(spec)
        if kind not in self._runs:
            parts = build(spec)
            on_gpu = parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
            self._runs[kind] = None if on_gpu else self._seconds(parts)
            self.memory = max(self.memory, own_memory() + SHARED)
        return self._runs[kind]

    def _key(self, spec: RunSpec) -> str:
        names = ["model", *(["norm"] if self.each_norm else []), "data", "batch_size", "optimizer", "trainer"]
        length = [] if self.each_norm else ["max_steps", "max_epochs", "val_every_n_steps", "monitor"]
        config = json.loads(kind_of(spec))
        return json.dumps([config[name] for name in (*names, *length)])

    def _seconds(self, parts: Parts) -> float:
        key = self._key(parts.spec)
        if key not in self._paces:
            self._paces[key] = pace_of(parts)
        step, sample = self._paces[key]
        steps, data = parts.module.total_steps, parts.data
        sizes = {split: len(data.evaluation_loader(split).rows) for split in ("train", "val", "test")}
        limits = length(parts.config)
        epochs = limits["max_epochs"] if limits["max_epochs"] > 0 else 0
        validations = (
            math.floor(steps / limits["val_check_interval"]) if "val_check_interval" in limits else epochs
        )
        final = min(sizes["train"], TRAIN_SAMPLES) + sizes["val"] + sizes["test"]
        evaluated = validations * sizes["val"] + final
        in_steps = 1 + LOOP_SHARE + watching(parts.config["monitor"])
        loop = steps * (step * in_steps + LOOP_SECONDS) + validations * SAVE_SECONDS
        return RUN_SECONDS + loop + evaluated * sample


def watching(monitors: dict[str, Any]) -> float:
    """What a configuration's monitors take of a step."""
    nodes = {name: node for name, node in monitors.items() if node and node.get("every_n_steps")}
    return sum(IN_STEPS.get(name, OTHER_IN_STEPS) / node["every_n_steps"] for name, node in nodes.items())


def pace_of(parts: Parts) -> tuple[float, float]:
    """(seconds of a training step, seconds of an evaluated sample)."""
    step, evaluate, samples = work_of(parts)
    return timed(step), timed(evaluate) / samples


def work_of(parts: Parts) -> tuple[Callable[[], None], Callable[[], None], int]:
    """(a training step, an evaluation of some samples, how many)."""
    keep_freed_memory()  # as in training; and what a step needed is counted after it
    trainer = parts.make_trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    precision = trainer.precision_plugin
    precision.convert_module(module := parts.module)
    batches = iter(parts.data.train_dataloader())
    batch = precision.convert_input(next(batches))
    module.train()
    fused = not str(parts.config["trainer"].get("precision")).startswith("16")
    made = module.optimizers_of(list(module.model.parameters()), fused=fused)
    optimizer = made["optimizer"] if isinstance(made, dict) else made

    def step() -> None:
        inputs = precision.convert_input(next(batches, batch))
        with precision.train_step_context():
            loss = module.training_step(inputs, 0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    samples = parts.data.probe_batch(EVALUATED)[0]

    def evaluate() -> None:
        with evaluation_mode(module), torch.inference_mode(), precision.val_step_context():
            module.evaluated(precision.convert_input(samples))

    return step, evaluate, len(samples)


def timed(work: Callable[[], None]) -> float:
    """Seconds of a call on an otherwise idle machine: the processor time of one thread, shared by those of the run.

    Threads that wait for each other spin, and on a busy machine they spin for most of their time.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work()
        times: list[float] = []
        while sum(times) < TIMED:
            before = time.process_time()
            work()
            times.append(time.process_time() - before)
    finally:
        torch.set_num_threads(threads)
    return sorted(times)[len(times) // 4] / threads**THREADS_HELP  # others, who are busy, only slow it down
