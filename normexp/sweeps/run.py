"""Run many runs: the plan on the screen, each run once at the place that is asked for, and the end in words."""

import contextlib
import json
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from normexp.config import process
from normexp.config.run_spec import RunSpec
from normexp.config.settings import how_to_look, writes_events
from normexp.runs import finished_summary
from normexp.runs.files import write_json
from normexp.sweeps.cell import Cell, TrainJob, train_job
from normexp.sweeps.engine import Engine
from normexp.sweeps.halving import Halving
from normexp.sweeps.options import Options
from normexp.sweeps.places.place import Place, choose_place
from normexp.sweeps.screen import Board, show_end, show_plan

MOST_HINTS = 500  # runs whose training losses are read at the end, in about three seconds
PLAN, PROGRESS = "sweep.json", "progress.jsonl"


def place_of(specs: Sequence[RunSpec], options: Options, folder: Path) -> Place:
    """The place that the options name, for these runs. Raises ValueError with one line if it cannot be used here."""
    # runs share their nodes
    trainers = {id(spec.config["trainer"]): spec.config["trainer"] for spec in specs}
    threads = max((spec.config["threads"] for spec in specs if spec.config["threads"]), default=None)
    cells = len({spec.together or spec.folder for spec in specs})
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

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    if options.rates and study is None:
        raise ValueError(
            "--rates=halving: for sweeps, `train -m`; the rates of a claim are those of its protocol"
        )
    halving = Halving(cells) if options.rates else None

    def payload(cell: Cell) -> TrainJob:
        return TrainJob(
            cell.specs, argv(cell), place.threads or None, halving.pause_at(cell) if halving else None
        )

    engine = Engine(place, payload, folder / "logs", say)
    engine.add(cells)
    show_plan(engine.cells, place, engine.logs, console, what=what)
    if options.plan:
        return 0
    started, record = time.monotonic(), Record(folder, command, engine.cells)
    with record, Board(engine.cells, place.at_once, console) as board:
        for cell in engine.run():
            changed = halving.note(cell) if halving and engine.stopped_by is None else []
            for one in dict.fromkeys((cell, *changed)):
                if one in changed and one.state == "planned":
                    engine.again(one)
                board.update(one)
                record.note(one)
    show_end(engine.cells, time.monotonic() - started, console, place.threads)
    if study is not None:
        show_answer_of(study, engine.cells, console)
    if engine.stopped_by is None:
        return int(any(cell.state in ("failed", "interrupted") for cell in engine.cells))
    if engine.stopped_by != signal.SIGINT:
        from normexp.training.survive import Interrupted

        # Slurm starts this job again
        if done := Interrupted(engine.stopped_by, 0, engine.previous).forward_signal():
            say(done)
    sys.stdout.flush()
    return 128 + engine.stopped_by


def show_answer_of(study: Path, cells: Sequence[Cell], console: Console) -> None:
    """Print what a study says now, what looks wrong in its recipe, and where to look."""
    from normexp.training.screen import show_hint

    done = [cell for cell in cells if cell.state in ("completed", "diverged", "skipped")]
    if not done or done[0].config["fast_dev_run"]:
        return
    folders = [folder for cell in done for folder in cell.folders]
    lines = dict.fromkeys(line for cell in done for line in how_to_look(cell.config, study))
    from normexp.report.finding import show_folder  # pandas takes a while to import

    means = show_folder(study, console, events=any(writes_events(cell.config) for cell in done))
    show_hint([finished_summary(folder) for folder in folders[:MOST_HINTS]], folders[:MOST_HINTS], console)
    for line in (f"report: {process.command('report')} {shlex.quote(str(study))}", *(means or lines)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


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
