"""A sweep, `train.py -m`: its cells are composed, each kind of run is built, and then all are run. A cell that cannot
run is named before anything starts."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from normexp.config import process
from normexp.config.compose import compose
from normexp.config.errors import one_line
from normexp.config.process import typed
from normexp.config.run_spec import RunSpec, spec_of
from normexp.config.targets import DataOfLaunch
from normexp.format import say
from normexp.runs import SUMMARY
from normexp.sweeps.estimate import kind_of
from normexp.sweeps.job import Task
from normexp.sweeps.options import SweepOptions
from normexp.sweeps.run import run
from normexp.training.build import build
from normexp.training.screen import how_to_look, make_console, writes_events


def sweep(
    job_overrides: Sequence[Sequence[str]], options: SweepOptions, folder: Path, argv: Sequence[str]
) -> int:
    """Run a cell for each list of overrides, in the folder of this launch. Returns the exit status. Raises ValueError
    with one line before the first run starts, if any cell cannot run."""
    with process.fast_imports():  # thousands of configurations are many objects, too
        planned = plan(names(job_overrides), job_overrides)
    # Flags stay. A preset's `hydra.mode: MULTIRUN` would make the one run a sweep again.
    flags = [a for a in argv[1:] if a not in ("-m", "--multirun") and (a.startswith("-") or "=" not in a)]
    single = ["hydra.mode=RUN"] if any(a.startswith("experiment=") for a in argv) else []
    specs, starter = list(planned.values()), [argv[0], *flags, *single]
    tasks = run(specs, options, folder=folder, names=list(planned), command=typed(argv), starter=starter)
    if not options.plan:
        first = specs[0].config
        show_answer_of(Path(first["outputs"], first["name"]), tasks, make_console(), options)
    return int(any(task.state in ("crashed", "interrupted") for task in tasks))


def names(job_overrides: Sequence[Sequence[str]]) -> list[str]:
    """The name of each cell: the overrides in which cells differ, or all overrides if there is one cell."""
    if not job_overrides:
        raise ValueError("an axis of the sweep has no value; give it one or more")
    everywhere = set.intersection(*(set(overrides) for overrides in job_overrides))
    return [
        " ".join(o for o in overrides if o not in everywhere) or " ".join(overrides)
        for overrides in job_overrides
    ]


def plan(names: Sequence[str], job_overrides: Sequence[Sequence[str]]) -> dict[str, RunSpec]:
    """Name of each cell -> its run. A run of each kind is built, unless it is finished.

    Raises ValueError with one line for the first cell that cannot run.
    """
    found: dict[str, RunSpec] = {}
    built: set[str] = set()  # kinds
    digests: dict[Path, str] = {}
    data = DataOfLaunch()
    for name, overrides in zip(names, job_overrides, strict=True):
        try:
            found[name] = spec = spec_of(*compose(overrides), overrides, data)
            if digests.setdefault(spec.folder, spec.digest) != spec.digest:
                raise ValueError(f"run_dir={spec.folder}: is one folder for several runs; use outputs=FOLDER")
            if (kind := kind_of(spec)) not in built and not (spec.folder / SUMMARY).exists():
                build(spec, data.take(spec.config))
                built.add(kind)
        except Exception as error:
            raise ValueError(f"{one_line(error)} [cell {name}]") from None
    return found


def show_answer_of(study: Path, tasks: Sequence[Task], console: Console, options: SweepOptions) -> None:
    """Print what a study says now, and where to look."""
    done = [task for task in tasks if task.state in ("completed", "diverged", "skipped")]
    if not done:
        return
    lines = dict.fromkeys(line for task in done for line in how_to_look(task.spec.config, study))
    from normexp.report.finding import show_folder  # pandas takes a while to import

    events = any(writes_events(task.spec.config) for task in done)
    means = show_folder(study, console, metric=options.metric, better=options.better, events=events)
    asked = options.model_dump(include={"metric", "better"}, exclude_defaults=True)
    arguments = [str(study), *(f"{key}={value}" for key, value in asked.items())]
    say(console, f"report: {process.command('report')} {shlex.join(arguments)}", *(means or lines))
