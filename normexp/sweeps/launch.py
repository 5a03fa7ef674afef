"""One launch of many runs, from its plan to its end, with everything that a command shows and writes."""

import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from normexp.config.loggers import writes_events
from normexp.sweeps.board import Board
from normexp.sweeps.cell import Cell
from normexp.sweeps.engine import Engine
from normexp.sweeps.ledger import Ledger
from normexp.sweeps.places.place import Place
from normexp.sweeps.sweep_screen import show_end, show_plan


class Launch:
    """Args:
    payload: see `Engine`.
    folder: for logs and the ledger; made right before the first run starts.
    command: the typed command line.
    """

    def __init__(self, place: Place, payload: Callable[[Cell], Any], folder: Path, command: str):
        # Loads torch, so only after the place has started to.
        from normexp.training.launch import make_console

        self.console: Console = make_console()
        self.engine = Engine(place, payload, folder / "logs", self.say)
        self._ledger = Ledger(folder, command)
        self._board: Board | None = None
        self._started = time.monotonic()

    @property
    def cells(self) -> list[Cell]:
        return self.engine.cells

    def add(self, cells: Iterable[Cell]) -> list[Cell]:
        """Run these cells too. Returns the cells that will run (see `Engine.add`)."""
        return self.engine.add(cells)

    def show_plan(self, *, what: str = "sweep", more: Mapping[str, str] | None = None) -> None:
        show_plan(self.cells, self.engine.place, self.engine.logs, self.console, what=what, more=more)

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def run(self) -> Iterator[Cell]:
        """Yield a cell whenever its state changes. More may be added in between."""
        self._started = time.monotonic()
        self._ledger.open(self.cells)
        try:
            with Board(self.cells, self.engine.place.at_once, self.console) as board:
                for cell in self.engine.run():
                    board.update(cell)
                    self._ledger.note(cell)
                    yield cell
        finally:
            self._ledger.close(self.cells)

    def end(self, study: Path | None = None) -> int:
        """Write a study's means for TensorBoard, and print the results. Returns the exit status."""
        seconds = time.monotonic() - self._started
        show_end(self.cells, seconds, self.console, study, self._means(study) if study else None)
        signum = self.engine.stopped_by
        if signum is None:
            return int(any(cell.state in ("failed", "interrupted") for cell in self.cells))
        if signum != signal.SIGINT:
            from normexp.training.survive import Interrupted

            stopped = Interrupted(signum, 0, self.engine.previous)
            if done := stopped.forward_signal():  # Slurm starts this job again
                self.say(done)
        sys.stdout.flush()
        return 128 + signum

    def _means(self, study: Path) -> Path | None:
        done = [cell for cell in self.cells if cell.state in ("completed", "diverged", "skipped")]
        if not any(writes_events(cell.config) for cell in done):
            return None
        from normexp.report.tensorboard_means import write_after_sweep  # pandas takes a while to import

        return write_after_sweep(study)
