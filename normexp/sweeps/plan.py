"""Check a whole grid before anything starts: each kind of run is built and tried, and one step of it timed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from normexp.cli.errors import one_line
from normexp.config.run_spec import RunSpec
from normexp.sweeps.cell import Cell, cells_of
from normexp.sweeps.estimate import Estimates

SHOWN = 3  # errors that a message shows; it counts the others


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
    for name, specs in zip(names, attempts, strict=True):
        try:
            if isinstance(specs, Exception):
                raise specs
            seconds = [estimates.seconds(spec, len(specs) if spec.together else 1) for spec in specs]
        except Exception as error:
            broken.setdefault(one_line(error), []).append(name)
            continue
        cells += cells_of(specs, [name] * len(specs), seconds)
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
                raise ValueError(
                    f"cells '{twin.name}' and '{cell.name}' are the same run, {folder}: values that only say how a "
                    "run is computed or where it is kept make no axis of a sweep"
                )
