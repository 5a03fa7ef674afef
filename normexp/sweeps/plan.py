"""Check a whole grid before anything starts: each kind of run is built and tried, and one step of it timed."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from normexp.cli.errors import one_line
from normexp.config.run_spec import RunSpec, kind_of
from normexp.sweeps.cell import Cell, cells_of
from normexp.training.build import Parts, build

SHOWN = 3  # errors that a message shows; it counts the others
AROUND_A_STEP = 1.4  # factor on forward and backward, for the training loop, light monitors and validation
AROUND_A_RUN = 1.0  # seconds to build, evaluate and save


def plan(
    names: Sequence[str], attempts: Sequence[Sequence[RunSpec] | Exception], threads: int = 0
) -> list[Cell]:
    """The checked cells of a grid. Finished cells are marked as skipped.

    Args:
        names: of each cell, for the screen.
        attempts: the runs of each cell, or why they are none.
        threads: of each run, so that a timed step takes as long as in the run; 0 for all threads of this process.

    Raises ValueError with one line that names the cells that cannot run, or two cells that are the same run.
    """
    if threads:
        torch.set_num_threads(threads)
    cells: list[Cell] = []
    broken: dict[str, list[str]] = {}  # error -> cells
    estimates = Estimates()
    for name, specs in zip(names, attempts, strict=True):
        try:
            if isinstance(specs, Exception):
                raise specs
            seconds = [estimates.seconds(spec) for spec in specs]
        except Exception as error:
            broken.setdefault(one_line(error), []).append(name)
            continue
        cells += cells_of(specs, [name] * len(specs), seconds)
    if broken:
        raise ValueError(_describe(broken, len(names)))
    _refuse_twins(cells)
    for cell in cells:
        cell.skip_if_finished()
    return cells


class Estimates:
    """Seconds of runs. One of each kind is built, which refuses what cannot run; a step is timed once per model, data
    and batch size, because the norm changes little."""

    def __init__(self) -> None:
        self._runs: dict[str, float | None] = {}  # by kind
        self._steps: dict[str, float] = {}

    def seconds(self, spec: RunSpec) -> float | None:
        """Seconds of a run with its start and end; None on a GPU. Raises ValueError for one that cannot run."""
        kind = kind_of(spec)
        if kind not in self._runs:
            parts = build(spec)
            step = self._step(parts)
            total = parts.module.total_steps
            self._runs[kind] = None if step is None else AROUND_A_RUN + total * step * AROUND_A_STEP
        return self._runs[kind]

    def _step(self, parts: Parts) -> float | None:
        if parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available():
            return None
        key = json.dumps([parts.config[name] for name in ("model", "data", "batch_size")], default=str)
        if key not in self._steps:
            self._steps[key] = seconds_per_step(parts)
        return self._steps[key]


def seconds_per_step(parts: Parts) -> float:
    """One forward and backward pass of a training batch on the CPU; the first pass warms up."""
    batch = parts.data.probe_batch(parts.config["batch_size"])
    for _ in range(2):
        started = time.perf_counter()
        parts.module.losses_of(batch)[0].backward()
        seconds = time.perf_counter() - started
    # If validation has fewer samples than a batch, scale the time in proportion.
    return seconds * parts.config["batch_size"] / len(batch[0])


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
                raise ValueError(
                    f"cells '{twin.name}' and '{cell.name}' are the same run, {folder}: values that only say how a "
                    "run is computed or where it is kept make no axis of a sweep"
                )
