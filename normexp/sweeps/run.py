"""Run many runs at any place: finished ones are skipped, the others submitted as futures, lost ones tried again."""

import contextlib
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import datetime
from pathlib import Path

from normexp.config.options import last_of_each
from normexp.config.process import handling
from normexp.config.run_spec import RunSpec
from normexp.format import pluralize, say
from normexp.runs.files import write_json
from normexp.sweeps.board import Board, show_end, show_plan
from normexp.sweeps.job import Job, Outcome, Task
from normexp.sweeps.options import Options
from normexp.sweeps.places import Place, choose_place
from normexp.training.folder import in_use
from normexp.training.screen import make_console

POLL_SECONDS = 0.2
LOOK_SECONDS = 1.0  # between two looks if other launches train all remaining runs
TRIES = 3  # of a run that is lost by no fault of its own


def run(
    specs: Sequence[RunSpec],
    options: Options | None = None,
    *,
    folder: Path,
    names: Sequence[str] = (),
    command: str = "",
    starter: Sequence[str] = ("normexp", "train"),
    brief: bool = False,
) -> list[Task]:
    """Train the runs that are not finished, and return what became of each; a run that stands twice counts once.

    It shows the plan, skips finished runs, leaves those that another process trains for later, tries lost ones again,
    and shows what failed and why. With `options.plan` it ends after the plan. After Ctrl-C, SIGTERM, SIGUSR1 or SIGUSR2
    it starts no more runs, asks the running ones to save, waits for them and exits with 128 plus the signal; a second
    Ctrl-C does not wait.

    Args:
        folder: of this launch, for logs and its record; made right before the first run starts.
        names: of each run on the screen; by default its overrides.
        command: the typed command line, for the record.
        starter: the command line without overrides; a run's own follow.
        brief: no line for each run that ends well; for commands whose result is not the runs.

    Raises ValueError with one line if the place cannot be used.
    """
    options, console = options or Options(), make_console()
    by_folder: dict[Path, Task] = {}
    for spec, name in zip(specs, names or [" ".join(spec.overrides) for spec in specs], strict=True):
        log = folder / "logs" / spec.choices["model"] / f"{spec.folder.name}.log"
        job = Job(spec, [*starter, *last_of_each(spec.overrides)], spec.config["threads"] or 1, log)
        by_folder.setdefault(spec.folder, Task(name, job))
    tasks = list(by_folder.values())
    for task in tasks:
        task.state = "skipped" if task.status() else "planned"
    todo = [task for task in tasks if task.state == "planned"]
    place = choose_place(options, [task.job for task in todo], folder) if todo else None
    show_plan(tasks, place, options, folder / "logs", console, command=command, brief=brief)
    if place is None or options.plan:
        return tasks
    started = time.monotonic()
    write_record(folder, command, tasks)
    try:
        board = Board(tasks, place.at_once, console, brief=brief)
        with board.status, signals() as came:
            for task in changes(todo, place, came, lambda line: say(console, line)):
                board.update(task)
    finally:
        write_record(folder, command, tasks)
    show_end(tasks, time.monotonic() - started, console)
    if came:
        sys.exit(128 + came[0])
    return tasks


def launch_folder(out: Path) -> Path:
    """The folder of a launch that begins now, whose runs lie in `out/cache`."""
    return out / "cache" / ".sweeps" / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}"


def changes(
    todo: Sequence[Task], place: Place, came: Sequence[int], say: Callable[[str], None]
) -> Iterator[Task]:
    """Run tasks at a place; yield each whose state changes. The first signal that `came` stops the launch."""
    waiting, running, stopping = deque(todo), dict[Future[Outcome], Task](), False
    try:
        while running or (waiting and not came):
            if came and not stopping:
                stopping = True
                say(f"stopping: {pluralize(len(running), 'run')} to save and end; Ctrl-C again does not wait")
                place.cancel()
            for _ in range(len(waiting)):
                if came or len(running) >= place.at_once:
                    break
                task = waiting.popleft()
                if task.status():  # by another launch
                    task.state = "skipped"
                elif in_use(task.spec.folder):
                    waiting.append(task)
                    continue
                else:
                    task.state = "running"
                    running[place.submit(task.job)] = task
                yield task
            place.look()
            if not running:
                time.sleep(LOOK_SECONDS if waiting and not came else 0)
            for future in wait(running, POLL_SECONDS, FIRST_COMPLETED).done:
                task = running.pop(future)
                settle(task, future, place, bool(came), say)
                if task.state == "planned":
                    waiting.append(task)
                yield task
    finally:
        place.close()


def settle(
    task: Task, future: "Future[Outcome]", place: Place, stopping: bool, say: Callable[[str], None]
) -> None:
    """Note how the job of a task ended. The task waits again if it was lost, unless it was lost often."""
    if future.exception() is None:
        outcome = future.result()
        task.state, task.error, task.seconds = outcome.status, outcome.error, outcome.seconds
    elif status := task.status():
        task.state = status
    else:
        why = place.why_lost(future)
        task.lost += 1
        task.state = "planned"
        if task.lost >= TRIES:
            task.state, task.error = "crashed", f"{why} ({TRIES} times)"
        elif not stopping:
            say(f"again: {task.run}: {why}; try {task.lost + 1} of {TRIES}")
    if stopping and task.state == "planned":
        task.state = "interrupted"


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """Inside this context, signals that stop a launch are put into a list. Only a Ctrl-C behind another one does what
    it did: `timeout`, for one, sends SIGTERM twice."""
    came: list[int] = []

    def note(number: int, frame: object) -> None:
        came.append(number)
        signal.signal(signal.SIGINT, previous[signal.SIGINT])

    with handling(note) as previous:
        yield came


def write_record(folder: Path, command: str, tasks: Sequence[Task]) -> None:
    """Write the plan or the end of a launch, `sweep.json`, for reports: one row for each run."""
    rows = [
        {
            "cell": task.name, "run": task.run, "folder": str(task.spec.folder), "hash": task.spec.digest,
            "state": task.state, "seconds": task.seconds, "error": task.error, "log": str(task.job.log),
        }
        for task in tasks
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "sweep.json", {"command": command, "cells": rows}, indent=1)
