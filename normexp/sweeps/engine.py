"""Run many runs, each once, at any place: the plan on the screen, the end in words. Finished runs are skipped, runs of
another launch are awaited, and lost runs are tried again."""

import contextlib
import functools
import json
import os
import shlex
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from normexp.config import process
from normexp.config.run_spec import RunSpec
from normexp.config.settings import how_to_look, writes_events
from normexp.format import pluralize
from normexp.runs import finished_summary
from normexp.runs.files import write_json
from normexp.sweeps.cell import Cell, Elsewhere, TrainJob, train_job
from normexp.sweeps.halving import Halving
from normexp.sweeps.places.choose import choose_place
from normexp.sweeps.places.place import Ended, Event, Job, Options, Place, checkpoints
from normexp.sweeps.places.this_machine import AT_ONCE, STOPS
from normexp.sweeps.screen import Board, show_end, show_plan
from normexp.training.screen import say, show_hint

POLL_SECONDS = 0.2
LOOK_SECONDS = 1.0  # between two looks if other launches train all remaining runs
TRIES = 3  # in a row without a new checkpoint, for a run that is lost without an error of its own (its machine is gone)


class JobQueue:
    """Jobs in their order, but jobs that another launch trains come last.

    So two sweeps of the same runs share the work. Between a look and the start of a job, another launch may take it.
    Then the job itself has to wait (`NORMEXP_WAIT`).

    Args:
        look: tells what other launches do with a job.

    Attributes:
        busy: jobs that another launch trained at the last look.
    """

    def __init__(self, jobs: Iterable[Any], look: Callable[[Any], Elsewhere]):
        self._left, self._look = deque(jobs), look
        self._next_look = 0.0
        self.busy: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, job: Any) -> None:
        """Add a job behind all others."""
        self._left.append(job)
        self._next_look = 0.0

    def take(self) -> tuple[Any, Elsewhere] | None:
        """The next job to start (NOTHING), or one that needs no start (FINISHED). None if other launches train all
        remaining jobs, or did so a moment ago."""
        if time.monotonic() < self._next_look:
            return None
        self.busy = []
        while len(self.busy) < len(self._left):
            job = self._left.popleft()
            if (where := self._look(job)) is not Elsewhere.TRAINING:
                return job, where
            self.busy.append(job)
            self._left.append(job)
        self._next_look = time.monotonic() + LOOK_SECONDS
        return None


class Engine:
    """Runs cells at a place.

    After Ctrl-C, SIGTERM, SIGUSR1 or SIGUSR2 it starts no more runs, asks the running ones to save, and waits for them.
    A second Ctrl-C or SIGTERM kills them.

    Args:
        payload: gives the argument of the place's target for a cell. It is called right before the cell starts.
        logs: folder of console logs, one per cell.
        say: prints a line.
    """

    def __init__(
        self,
        place: Place,
        payload: Callable[[Cell], Any],
        cells: Iterable[Cell],
        logs: Path,
        say: Callable[[str], None] = lambda line: None,
    ):
        self.place, self.payload, self.cells, self.logs, self.say = place, payload, list(cells), logs, say
        for cell in self.cells:
            cell.log = logs / f"{cell.run}.log"
        self.stopped_by: int | None = None  # the signal that ended the launch
        self.previous: Any = None  # the earlier handler of that signal
        self._queue: JobQueue = JobQueue([], Cell.look)
        self._open: dict[str, Cell] = {}  # at the place, by the job's key
        self._kill = False

    def again(self, cell: Cell) -> None:
        """Start a cell again that has ended."""
        cell.state = "planned"
        self._queue.add(cell)

    def run(self) -> Iterator[Cell]:
        """Yield a cell whenever its state changes."""
        stopping = False
        previous = {number: signal.signal(number, self._stop) for number in STOPS}
        try:
            self._find_running()
            while self._open or (self.stopped_by is None and self._queue):
                if self.stopped_by is None:
                    yield from self._start()
                elif not stopping or self._kill:
                    if not stopping:
                        open_runs = pluralize(sum(len(cell.folders) for cell in self._open.values()), "run")
                        kills = "; Ctrl-C again kills them" if self.stopped_by == signal.SIGINT else ""
                        self.say(f"stopping: {open_runs} to save and end, or to leave the queue{kills}")
                    stopping = True
                    self.place.stop(force=self._kill)
                while self.place.said:
                    self.say(self.place.said.pop(0))
                for event in self.place.poll(POLL_SECONDS):
                    yield self._note(event)
        finally:
            self.place.close()  # jobs are left only if the consumer of the events raised an error
            for number, handler in previous.items():
                signal.signal(number, handler)
            self.previous = previous.get(self.stopped_by)

    def _stop(self, number: int, frame: Any) -> None:
        self._kill = self._kill or (number in AT_ONCE and self.stopped_by in AT_ONCE)
        self.stopped_by = number

    def _find_running(self) -> None:
        """Adopt cells that an earlier launch started and left running."""
        cells = [cell for cell in self.cells if cell.state == "planned"]
        adopted = {job.key for job in self.place.adopt(list(map(_job, cells)))} if cells else set()
        for cell in cells:
            self._begin(cell) if _key(cell) in adopted else self._queue.add(cell)

    def _begin(self, cell: Cell) -> None:
        cell.since, cell.saved = time.monotonic(), checkpoints(cell.folders)
        self._open[_key(cell)] = cell

    def _start(self) -> Iterator[Cell]:
        jobs: list[Job] = []
        room = self.place.room
        while len(jobs) < room and (turn := self._queue.take()):
            cell, where = turn
            if where is Elsewhere.FINISHED:  # another launch has finished it meanwhile
                cell.skip_if_finished()
                yield cell
                continue
            jobs.append(_job(cell, self.payload(cell)))
            self._begin(cell)
        for job in self.place.submit(jobs) if jobs else ():
            self._queue.add(self._open.pop(job.key))
        for cell in self._queue.busy:
            if cell.state != "elsewhere":
                cell.state = "elsewhere"
                yield cell

    def _note(self, event: Event) -> Cell:
        cell = self._open[event.job.key]
        if not isinstance(event, Ended):
            cell.since, cell.state = time.monotonic(), "running"
            return cell
        del self._open[event.job.key]
        if self.stopped_by is None and self._again(event, cell):
            self.again(cell)
            return cell
        cancelled = self.stopped_by is not None and event.exit_code == 128 + signal.SIGTERM
        if cancelled and cell.state != "running" and checkpoints(cell.folders) == cell.saved:
            cell.state = "planned"  # it never left the queue
            return cell
        code = 0 if event.lost and cell.status() else event.exit_code
        cell.finish(code, time.monotonic() - cell.since, stopped=self.stopped_by is not None)
        cell.used = event.used
        if event.timed_out and cell.tries >= TRIES:
            cell.state = "failed"
            cell.error = f"no checkpoint within its time limit, {TRIES} times; give it more (time_limit)"
        return cell

    def _again(self, event: Ended, cell: Cell) -> bool:
        """Whether to start an ended job again. If so, prints a line."""
        if cell.status() or not (event.lost or event.timed_out):
            return False
        got_on = checkpoints(cell.folders) != cell.saved
        if event.timed_out and got_on:
            self.say(f"again: {cell.run}: its time was over; it goes on from its checkpoint")
            return True
        cell.tries = 1 if got_on else cell.tries + 1
        if cell.tries >= TRIES:
            return False
        self.say(f"again: {cell.run}: {event.lost or 'its time was over'}; try {cell.tries + 1} of {TRIES}")
        return True


def _key(cell: Cell) -> str:
    return str(cell.folder.absolute())


def _job(cell: Cell, payload: Any = None) -> Job:
    assert cell.log is not None
    return Job(_key(cell), payload, cell.log, tuple(cell.folders))


MOST_HINTS = 500  # runs whose training losses are read at the end, in about three seconds
PLAN, PROGRESS = "sweep.json", "progress.jsonl"


def place_of(specs: Sequence[RunSpec], options: Options, folder: Path) -> Place:
    """The place that the options name, for these runs. Raises ValueError with one line if it cannot be used here."""
    # runs share their nodes
    trainers = {id(spec.config["trainer"]): spec.config["trainer"] for spec in specs}
    threads = max((spec.config["threads"] for spec in specs if spec.config["threads"]), default=None)
    cells = len({spec.folder for spec in specs})
    return choose_place(train_job, options, list(trainers.values()), cells, folder, threads=threads)


def run(
    cells: Sequence[Cell],
    options: Options,
    folder: Path,
    command: str,
    *,
    argv: Callable[[Cell], list[str]],
    what: str = "runs",
    study: Path | None = None,
    place: Place | None = None,
) -> int:
    """Train the cells that are not finished. Returns the exit status: 0, 1 where one failed, 128 plus a signal.

    It shows the plan, skips finished runs, waits for those of another launch, tries lost ones again, and shows what
    failed and why. With `options.plan` it ends after the plan. `cell.state` says what became of each cell.

    Args:
        folder: of this launch, for logs and its record; made right before the first run starts.
        command: the typed command line.
        argv: the command line that trains a cell alone.
        what: the name in the first line of the plan.
        study: the folder of a study, whose means over seeds are written at the end for TensorBoard.
    """
    from normexp.training.train import make_console  # loads torch

    console = make_console()
    place = place or place_of([spec for cell in cells for spec in cell.specs], options, folder)
    tell = functools.partial(say, console)
    if options.rates and study is None:
        raise ValueError(
            "--rates=halving: for sweeps, `train -m`; the rates of a claim are those of its protocol"
        )
    halving = Halving(cells) if options.rates else None

    def payload(cell: Cell) -> TrainJob:
        return TrainJob(
            cell.specs, argv(cell), place.threads or None, halving.pause_at(cell) if halving else None
        )

    engine = Engine(place, payload, cells, folder / "logs", tell)
    show_plan(engine.cells, place, engine.logs, console, what=what)
    if options.plan:
        return 0
    started, record = time.monotonic(), Record(folder, command, engine.cells)
    with record, Board(engine.cells, place.at_once, console) as board:
        for cell in engine.run():
            changed = halving.note(cell) if halving and engine.stopped_by is None else []
            for affected in dict.fromkeys((cell, *changed)):
                if affected in changed and affected.state == "planned":
                    engine.again(affected)
                board.update(affected)
                record.note(affected)
    show_end(engine.cells, time.monotonic() - started, console, place.threads)
    if study is not None:
        show_answer_of(study, engine.cells, console)
    if engine.stopped_by is None:
        return int(any(cell.state in ("failed", "interrupted") for cell in engine.cells))
    if engine.stopped_by != signal.SIGINT:
        from normexp.training.survive import Interrupted

        # Slurm starts this job again
        if done := Interrupted(engine.stopped_by, 0, engine.previous).forward_signal():
            tell(done)
    sys.stdout.flush()
    return 128 + engine.stopped_by


def show_answer_of(study: Path, cells: Sequence[Cell], console: Console) -> None:
    """Print what a study says now, what looks wrong in its recipe, and where to look."""
    done = [cell for cell in cells if cell.state in ("completed", "diverged", "skipped")]
    if not done or done[0].config["fast_dev_run"]:
        return
    folders = [folder for cell in done for folder in cell.folders]
    lines = dict.fromkeys(line for cell in done for line in how_to_look(cell.config, study))
    from normexp.report.finding import show_folder  # pandas takes a while to import

    means = show_folder(study, console, events=any(writes_events(cell.config) for cell in done))
    show_hint([finished_summary(folder) for folder in folders[:MOST_HINTS]], folders[:MOST_HINTS], console)
    say(console, f"report: {process.command('report')} {shlex.quote(str(study))}", *(means or lines))


class Record:
    """The plan and the progress of a launch on disk, for reports and for people who look while it runs.

    `sweep.json` has one row per cell, as planned and again at the end. In between, each event is one line of
    `progress.jsonl`, so it costs the same in a sweep of ten cells and of ten thousand.
    """

    def __init__(self, folder: Path, command: str, cells: Sequence[Cell]):
        self.folder, self.command, self.cells = folder, command, cells
        self._index = {id(cell): place for place, cell in enumerate(cells)}

    def __enter__(self) -> "Record":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write()
        self._file = (self.folder / PROGRESS).open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._write()
        with contextlib.suppress(OSError):
            (self.folder / PROGRESS).unlink()

    def note(self, cell: Cell) -> None:
        """Note a cell's new state."""
        self._file.write(json.dumps({"index": self._index[id(cell)], **_row(cell)}) + "\n")
        self._file.flush()

    def _write(self) -> None:
        launch = {"command": self.command, "host": socket.gethostname(), "pid": os.getpid()}
        rows = [_row(cell) for cell in self.cells]
        write_json(self.folder / PLAN, {**launch, "cells": rows}, indent=1, on_disk=False)


def _row(cell: Cell) -> dict[str, Any]:
    return {
        "cell": cell.name, "run": cell.run, "folder": str(cell.folder), "hash": cell.specs[0].digest,
        "state": cell.state, "seconds": cell.seconds, "error": cell.error,
        "log": str(cell.log) if cell.log else None,
    }  # fmt: skip
