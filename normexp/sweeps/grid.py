"""A sweep, `train.py -m`: its cells are composed, each kind of run is built, and then all are run. A cell that cannot
run is named before anything starts."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from normexp.config import process
from normexp.config.errors import one_line
from normexp.config.loggers import how_to_look, writes_events
from normexp.config.process import typed
from normexp.config.run_spec import RunSpec, specs_of
from normexp.runs import SUMMARY
from normexp.sweeps.estimate import kind_of
from normexp.sweeps.job import Cell
from normexp.sweeps.options import Options
from normexp.sweeps.run import run
from normexp.training.build import build
from normexp.training.screen import make_console, say

SHOWN = 3  # errors that a message shows; it counts the others


def sweep(job_overrides: Sequence[Sequence[str]], options: Options, folder: Path, argv: Sequence[str]) -> int:
    """Run a cell for each list of overrides. Returns the exit status. Raises ValueError with one line before the first
    run starts, if any cell cannot run.

    Args:
        folder: of this launch.
        argv: the command line of the sweep.
    """
    planned, left_out = plan(names(job_overrides), specs_of(job_overrides))
    if left_out and not (options.skip_invalid and planned):
        raise ValueError(left_out)
    if left_out:
        print(f"left out: {left_out}")
    first = next(iter(planned.values())).config
    # Flags stay. A preset's `hydra.mode: MULTIRUN` would make the one run a sweep again.
    flags = [a for a in argv[1:] if a not in ("-m", "--multirun") and (a.startswith("-") or "=" not in a)]
    single = ["hydra.mode=RUN"] if any(a.startswith("experiment=") for a in argv) else []
    cells = run(
        list(planned.values()),
        options,
        folder=folder,
        names=list(planned),
        command=typed(argv),
        starter=[argv[0], *flags, *single],
        what="sweep",
    )
    if not options.plan:
        show_answer_of(Path(first["outputs"], first["name"]), cells, make_console())
    return int(any(cell.state in ("failed", "interrupted") for cell in cells))


def names(job_overrides: Sequence[Sequence[str]]) -> list[str]:
    """The name of each cell: the overrides in which cells differ, or all overrides if there is one cell."""
    everywhere = set.intersection(*(set(overrides) for overrides in job_overrides))
    return [
        " ".join(o for o in overrides if o not in everywhere) or " ".join(overrides)
        for overrides in job_overrides
    ]


def plan(names: Sequence[str], attempts: Sequence[RunSpec | ValueError]) -> tuple[dict[str, RunSpec], str]:
    """(name -> run of the cells that can run, a line that names the others). A run of each kind is built, unless it is
    finished.

    Args:
        attempts: the run of each cell, or why there is none.

    Raises ValueError with one line that names two cells that are the same run.
    """
    found: dict[str, RunSpec] = {}
    folders: dict[Path, str] = {}
    broken: dict[str, list[str]] = {}  # error -> cells
    kinds: dict[str, str] = {}  # kind -> error
    for name, attempt in zip(names, attempts, strict=True):
        error = one_line(attempt) if isinstance(attempt, ValueError) else _trial(attempt, kinds)
        if error or isinstance(attempt, ValueError):
            broken.setdefault(error, []).append(name)
            continue
        twin = folders.setdefault(attempt.folder, name)
        if twin != name:
            raise ValueError(
                f"cells '{twin}' and '{name}' are the same run, {attempt.folder}: values that only say how a run is "
                "computed or where it is kept make no axis of a sweep"
            )
        found[name] = attempt
    if not broken:
        return found, ""
    listed = [
        f"{error} [cell {cells[0]}{f' and {len(cells) - 1} more' if len(cells) > 1 else ''}]"
        for error, cells in broken.items()
    ]
    more = [f"and {len(listed) - SHOWN} other errors"] if len(listed) > SHOWN else []
    count = sum(map(len, broken.values()))
    return found, f"{count} of {len(names)} cells cannot run: {'; '.join(listed[:SHOWN] + more)}"


def _trial(spec: RunSpec, kinds: dict[str, str]) -> str:
    """Why a run cannot be built; empty if it can, or is finished. Each kind of run is tried once."""
    kind = kind_of(spec)
    if kind not in kinds:
        if (spec.folder / SUMMARY).exists() and not spec.config["fast_dev_run"]:
            return ""
        try:
            build(spec)
            kinds[kind] = ""
        except Exception as error:
            kinds[kind] = one_line(error)
    return kinds[kind]


def show_answer_of(study: Path, cells: Sequence[Cell], console: Console) -> None:
    """Print what a study says now, and where to look."""
    done = [cell for cell in cells if cell.state in ("completed", "diverged", "skipped")]
    if not done or done[0].spec.config["fast_dev_run"]:
        return
    lines = dict.fromkeys(line for cell in done for line in how_to_look(cell.spec.config, study))
    from normexp.report.finding import show_folder  # pandas takes a while to import

    means = show_folder(study, console, events=any(writes_events(cell.spec.config) for cell in done))
    say(console, f"report: {process.command('report')} {shlex.quote(str(study))}", *(means or lines))
