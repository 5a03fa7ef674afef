"""Run many runs at any place: finished ones are skipped, the others submitted as futures, lost ones tried again."""

import contextlib
import os
import queue
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from functools import partial
from pathlib import Path

from normexp.config.errors import one_line
from normexp.config.run_spec import RunSpec
from normexp.format import pluralize
from normexp.runs.files import write_json
from normexp.sweeps.board import Board, show_end, show_plan
from normexp.sweeps.cell import Cell
from normexp.sweeps.choose import choose_place
from normexp.sweeps.job import AT_ONCE, STOPS, Job, Outcome
from normexp.sweeps.options import Options, threads_of
from normexp.sweeps.place import Lost, Place
from normexp.training.folder import in_use
from normexp.training.screen import make_console, say

POLL_SECONDS = 0.2
LOOK_SECONDS = 1.0  # between two looks if other launches train all remaining runs
TRIES = 3  # in a row without a new checkpoint, for a run that is lost by no fault of its own
RECORD = "sweep.json"
KILLED = "its process was killed; is there enough memory?"


def run(
    specs: Sequence[RunSpec],
    options: Options | None = None,
    *,
    folder: Path,
    names: Sequence[str] = (),
    command: str = "",
    starter: Sequence[str] = ("normexp", "train"),
    what: str = "runs",
) -> list[Cell]:
    """Train the runs that are not finished, and return what became of each; a run that stands twice counts once.

    It shows the plan, skips finished runs, leaves those that another process trains for later, tries lost ones again,
    and shows what failed and why. With `options.plan` it ends after the plan. After Ctrl-C, SIGTERM, SIGUSR1 or SIGUSR2
    it starts no more runs, asks the running ones to save, waits for them and exits with 128 plus the signal; a second
    Ctrl-C or SIGTERM kills them.

    Args:
        folder: of this launch, for logs and its record; made right before the first run starts.
        names: of each run on the screen; by default its overrides.
        command: the typed command line, for the record.
        starter: the command line without overrides; a run's own follow.
        what: the name in the first line of the plan.

    Raises ValueError with one line if the place cannot be used.
    """
    options = (options or Options()).check()
    cells: dict[Path, Cell] = {}
    for spec, name in zip(specs, names or [" ".join(spec.overrides) for spec in specs], strict=True):
        log = folder / "logs" / spec.choices["model"] / f"{spec.folder.name}.log"
        cells.setdefault(spec.folder, Cell(name, spec, log))
    for cell in cells.values():
        if cell.summary_status():
            cell.state = "skipped"
    found = list(cells.values())
    todo = [cell for cell in found if cell.state == "planned"]
    place = choose_place(options, [cell.spec for cell in todo], folder) if todo else None
    console = make_console()
    show_plan(found, place, options, folder / "logs", console, what=what)
    if place is None or options.plan:
        return found

    def job_of(cell: Cell) -> Job:
        argv = [*starter, *cell.spec.overrides]
        return Job(cell.spec, argv, threads_of(cell.spec, options), cell.log)

    started = time.monotonic()
    with Record(folder, command, found), Board(found, place.at_once, console) as board, signals() as came:
        for cell in Launch(todo, place, job_of, came, partial(say, console)).changes():
            board.update(cell)
    show_end(found, time.monotonic() - started, console)
    if came:
        from normexp.training.checkpoint import hand_on  # loads torch

        hand_on(came[0], signal.getsignal(came[0]))  # submitit or Slurm may start this launch again
        sys.exit(128 + came[0])
    return found


class Launch:
    """Runs cells at a place.

    Args:
        came: the signals that came. The first stops the launch, a second one to end kills its runs.
        say: prints a line.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        place: Place,
        job_of: Callable[[Cell], Job],
        came: Sequence[int],
        say: Callable[[str], None],
    ):
        self.place, self.job_of, self.came, self.say = place, job_of, came, say
        self._waiting = deque(cells)
        self._open: dict[
            Future[Outcome], tuple[Cell, float, float]
        ] = {}  # with start, and time of the checkpoint then
        self._ended: queue.SimpleQueue[Future[Outcome]] = queue.SimpleQueue()
        self._answered = 0  # of the signals
        self._next_look = 0.0

    def changes(self) -> Iterator[Cell]:
        """Yield a cell whenever its state changes."""
        try:
            while self._open or (self._waiting and not self.came):
                if self.came:
                    self._stop()
                elif time.monotonic() >= self._next_look:
                    yield from self._start()
                    self._next_look = 0.0 if self._open else time.monotonic() + LOOK_SECONDS
                self.place.look()
                with contextlib.suppress(queue.Empty):
                    future = self._ended.get(timeout=POLL_SECONDS)
                    cell, since, saved = self._open.pop(future)
                    cell.seconds = time.monotonic() - since
                    self._settle(cell, future, saved)
                    if cell.state in ("planned", "elsewhere"):
                        self._waiting.append(cell)
                    yield cell
        finally:
            self.place.close()

    def _start(self) -> Iterator[Cell]:
        """Fill the place. Cells that another launch trains come last."""
        for _ in range(len(self._waiting)):
            if len(self._open) >= self.place.at_once or self.came:
                return
            cell = self._waiting.popleft()
            before, cell.state = cell.state, "running"
            if cell.summary_status():
                cell.state = "skipped"
            elif not cell.spec.config["fast_dev_run"] and in_use(cell.folder):
                cell.state = "elsewhere"
                self._waiting.append(cell)
            if cell.state != before:
                yield cell
            if cell.state == "running":
                since = time.monotonic(), cell.checkpoint_time()
                future = self.place.submit(self.job_of(cell))
                self._open[future] = cell, *since
                future.add_done_callback(self._ended.put)

    def _stop(self) -> None:
        force = sum(number in AT_ONCE for number in self.came) > 1
        if self._answered == 1 + force:
            return
        if not self._answered:
            kills = "; Ctrl-C again kills them" if self.came[0] == signal.SIGINT else ""
            runs = pluralize(len(self._open), "run")
            self.say(f"stopping: {runs} to save and end, or to leave the queue{kills}")
        self._answered = 1 + force
        self.place.cancel(force=force)

    def _settle(self, cell: Cell, future: "Future[Outcome]", saved: float) -> None:
        """Note how a job ended. Its cell waits again if it was lost, unless it was lost often without getting on.

        Args:
            saved: the time of its checkpoint when it was submitted.
        """
        error = future.exception()
        if error is None:
            outcome = future.result()
            cell.state, cell.error = outcome.status, outcome.error
            cell.seconds = outcome.seconds or cell.seconds
        elif status := cell.summary_status():
            cell.state = status
        else:
            cell.tries = 1 if cell.checkpoint_time() != saved else cell.tries + 1
            why = (
                KILLED
                if isinstance(error, BrokenExecutor)
                else f"{error}"
                if isinstance(error, Lost)
                else one_line(error)
            )
            cell.state = "planned"
            if cell.tries >= TRIES:
                cell.state, cell.error = "failed", f"{why} ({TRIES} times without a new checkpoint)"
            elif not self.came:
                self.say(f"again: {cell.run}: {why}; try {cell.tries + 1} of {TRIES}")
        if self.came and cell.state in ("planned", "elsewhere"):
            cell.state = "interrupted"


@contextlib.contextmanager
def signals() -> Iterator[list[int]]:
    """Inside this context, signals that stop a launch are put into a list."""
    came: list[int] = []
    previous = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in STOPS}
    try:
        yield came
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Record:
    """The plan and the end of a launch on disk, `sweep.json`, for reports: one row for each run."""

    def __init__(self, folder: Path, command: str, cells: Sequence[Cell]):
        self.folder, self.command, self.cells = folder, command, cells

    def __enter__(self) -> "Record":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def _write(self) -> None:
        rows = [
            {
                "cell": cell.name, "run": cell.run, "folder": str(cell.folder), "hash": cell.spec.digest,
                "state": cell.state, "seconds": cell.seconds, "error": cell.error, "log": str(cell.log),
            }
            for cell in self.cells
        ]  # fmt: skip
        launch = {"command": self.command, "host": socket.gethostname(), "pid": os.getpid()}
        write_json(self.folder / RECORD, {**launch, "cells": rows}, indent=1, on_disk=False)
