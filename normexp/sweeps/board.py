"""The progress of many runs: a bar, or a line for each run that ends."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

from normexp.format import duration
from normexp.sweeps.cell import WAITING, Cell

LABEL = "runs"
NARROW = 100  # letters of a screen
RUNNING_SHOWN = 2


class Board:
    """Progress over runs: a bar that is drawn twice per second, or one line per run if the output is no terminal.

    Sums change with each event, so an event costs the same for any number of cells.
    """

    def __init__(self, cells: Sequence[Cell], at_once: int, console: Console):
        self.at_once, self.console, self.total = max(at_once, 1), console, len(cells)
        self._states = Counter(cell.state for cell in cells)
        self._last = {id(cell): cell.state for cell in cells}
        self._running: dict[int, Cell] = {}
        known = [cell.estimate for cell in cells if cell.estimate is not None]
        self._usual = sum(known) / len(known) if known else 1.0  # seconds of a run without an estimate
        self._expected = sum(map(self._seconds, filter(lambda cell: cell.state in WAITING, cells)))
        self._ended = self._taken = (
            0.0  # of the runs that ended: their estimates, and the seconds that they took
        )
        # On a narrow screen the names of runs are cut, and the counts stay whole.
        narrow = console.width < NARROW
        columns = (
            TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=len(LABEL))),
            BarColumn(bar_width=10 if narrow else 30, table_column=Column(min_width=10)),
            MofNCompleteColumn(
                table_column=Column(no_wrap=True, min_width=len(f"{len(cells)}/{len(cells)}"))
            ),
            TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True)),
        )
        self._progress = Progress(
            *columns, console=console, refresh_per_second=2, disable=not console.is_terminal
        )
        self._task = self._progress.add_task(LABEL, total=len(cells), text="")
        for cell in cells:
            self._note_running(cell)

    def __enter__(self) -> "Board":
        self._progress.start()
        self._draw()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def update(self, changed: Cell) -> None:
        """Show the new state of a cell."""
        before = self._last[id(changed)]
        self._last[id(changed)] = changed.state
        self._states[before] -= 1
        self._states[changed.state] += 1
        self._note_running(changed)
        if before in WAITING and changed.state not in WAITING:
            self._expected -= self._seconds(changed)
            if changed.seconds is not None:
                self._ended += self._seconds(changed)
                self._taken += changed.seconds
        if changed.seconds is not None and (not self.console.is_terminal or changed.state == "failed"):
            text = f"{self.settled}/{self.total}  {changed.state:<11} {changed.run}  "
            text += duration(changed.seconds)
            text += f"  {changed.error}" if changed.error else ""
            text += f"  remaining {duration(self.remaining())}" if self.remaining() else ""
            self._say(text)
        if changed.state == "elsewhere" and not self.console.is_terminal:
            self._say(f"waits for another launch, which trains {changed.run}")
        self._draw()

    @property
    def settled(self) -> int:
        """Number of cells that wait for nothing."""
        return self.total - sum(self._states[state] for state in WAITING)

    def remaining(self) -> float:
        """Remaining seconds: the estimate for the open runs, corrected by the times of the ended ones."""
        left = self.total - self.settled
        if not self._ended or not left:
            return 0.0
        return self._expected * self._taken / self._ended / min(self.at_once, left)

    def _seconds(self, cell: Cell) -> float:
        return self._usual if cell.estimate is None else cell.estimate

    def _note_running(self, cell: Cell) -> None:
        if cell.state == "running":
            self._running[id(cell)] = cell
        else:
            self._running.pop(id(cell), None)

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _draw(self) -> None:
        names = [cell.run for cell, _ in zip(self._running.values(), range(RUNNING_SHOWN), strict=False)]
        hidden = len(self._running) - len(names)
        more = f" and {hidden} more" if hidden else ""
        remaining = f"remaining {duration(self.remaining())}  " if self.remaining() else ""
        text = f"{in_counts(self._states)}  {remaining}{', '.join(names)}{more}"
        self._progress.update(self._task, completed=self.settled, total=self.total, text=escape(text))


def counts(cells: Sequence[Cell]) -> str:
    """The numbers of cells that are done, running, failed and so on, in words."""
    return in_counts(Counter(cell.state for cell in cells))


def in_counts(found: Mapping[str, int]) -> str:
    """The same from the numbers of each state."""
    found = Counter(found)
    done = found["completed"] + found["diverged"]
    parts = [f"{done} done" + (f" ({found['diverged']} diverged)" if found["diverged"] else "")]
    parts += [
        f"{found[name]} {name}"
        for name in ("running", "elsewhere", "paused", "cut", "failed", "interrupted", "skipped")
        if found[name]
    ]
    return ", ".join(parts)
