"""A sweep, `train.py -m`: the cells of a grid are composed, planned and run. Before anything starts, each kind of run
is built and tried, and one step of it timed."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from normexp.cli.errors import one_line
from normexp.config.compose import Composer
from normexp.config.process import typed
from normexp.config.run_spec import RunSpec, specs
from normexp.sweeps.cell import Cell, cells_of
from normexp.sweeps.options import Options
from normexp.sweeps.places.place import warm_up

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
    warm_up(options)  # makes the imports of jobs while this process composes
    from normexp.sweeps.run import place_of, run

    attempts = _attempts(job_overrides, using)
    found = [spec for own in attempts if not isinstance(own, Exception) for spec in own]
    place = place_of(found, options, folder) if found else None
    skip = print if options.skip_invalid else None
    cells = plan(names(job_overrides), attempts, place.threads if place else 0, skip)
    overrides_of = {
        spec.folder: overrides
        for overrides, own in zip(job_overrides, attempts, strict=True)
        for spec in (() if isinstance(own, Exception) else own)
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
    found: dict[tuple[str, ...], list[RunSpec] | ValueError] = {}
    alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for overrides in job_overrides:
        alike.setdefault(tuple(o for o in overrides if not SEED.fullmatch(o)), []).append(tuple(overrides))
    for shared, (first, *others) in alike.items():
        found[first] = own = _attempt(first, using)
        if len(others) > 1 and not isinstance(own, ValueError) and len(own) == 1:
            seeds = [int(o.partition("=")[2]) for cell in others for o in cell if SEED.fullmatch(o)]
            with contextlib.suppress(ValueError):  # the messages of each cell follow
                for cell, spec in zip(others, specs(shared, seeds=seeds, using=using), strict=True):
                    found[cell] = [dataclasses.replace(spec, overrides=cell)]
        for cell in others:
            if cell not in found:
                found[cell] = _attempt(cell, using)
    return [found[tuple(overrides)] for overrides in job_overrides]


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
    from normexp.sweeps.estimate import Estimates  # loads Lightning

    if threads:
        torch.set_num_threads(threads)
    cells: list[Cell] = []
    broken: dict[str, list[str]] = {}  # error -> cells
    estimates = Estimates()
    for name, own in zip(names, attempts, strict=True):
        try:
            if isinstance(own, Exception):
                raise own
            seconds = [estimates.seconds(spec, len(own) if spec.together else 1) for spec in own]
        except Exception as error:
            broken.setdefault(one_line(error), []).append(name)
            continue
        cells += cells_of(own, [name] * len(own), seconds)
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
