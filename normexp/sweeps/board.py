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

    Counts change with each event, so an event costs the same for any number of cells.
    """

    def __init__(self, cells: Sequence[Cell], at_once: int, console: Console):
        self.at_once, self.console = max(at_once, 1), console
        self._states: Counter[str] = Counter()
        self._last: dict[int, tuple[str, float | None]] = {}
        self._running: dict[int, Cell] = {}
        self._ran, self._left = _Time(), _Time()
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
            self._count(cell)

    def __enter__(self) -> "Board":
        self._progress.start()
        self._draw()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def update(self, changed: Cell) -> None:
        self._count(changed)
        if changed.seconds is not None and (not self.console.is_terminal or changed.state == "failed"):
            text = f"{self.settled}/{len(self._last)}  {changed.state:<11} {changed.run}  "
            text += duration(changed.seconds)
            text += f"  {changed.error}" if changed.error else ""
            text += f"  remaining {duration(self.remaining())}" if self.remaining() else ""
            self.say(text)
        if changed.state == "elsewhere" and not self.console.is_terminal:
            self.say(f"waits for another launch, which trains {changed.run}")
        self._draw()

    @property
    def settled(self) -> int:
        return len(self._last) - sum(self._states[state] for state in WAITING)

    def _count(self, cell: Cell) -> None:
        if before := self._last.get(id(cell)):
            self._tally(*before, cell.estimate, by=-1)
        self._last[id(cell)] = (cell.state, cell.seconds)
        self._tally(cell.state, cell.seconds, cell.estimate, by=1)
        if cell.state == "running":
            self._running[id(cell)] = cell
        else:
            self._running.pop(id(cell), None)

    def _tally(self, state: str, seconds: float | None, estimate: float | None, *, by: int) -> None:
        self._states[state] += by
        if state in WAITING:
            self._left.add(estimate, 0.0, by)
        elif seconds is not None:
            self._ran.add(estimate, seconds, by)

    def _draw(self) -> None:
        names = [cell.run for cell, _ in zip(self._running.values(), range(RUNNING_SHOWN), strict=False)]
        hidden = len(self._running) - len(names)
        more = f" and {hidden} more" if hidden else ""
        remaining = f"remaining {duration(self.remaining())}  " if self.remaining() else ""
        text = f"{in_counts(self._states)}  {remaining}{', '.join(names)}{more}"
        self._progress.update(self._task, completed=self.settled, total=len(self._last), text=escape(text))

    def remaining(self) -> float:
        """Remaining seconds: the estimate for the open runs, corrected by the times of the ended ones."""
        if not self._ran.cells or not self._left.cells:
            return 0.0
        mean = self._ran.taken / self._ran.cells
        pace = self._ran.taken / (self._ran.expected(mean) or 1.0)
        return pace * self._left.expected(mean) / min(self.at_once, self._left.cells)


class _Time:
    """Sums over cells of one kind."""

    def __init__(self) -> None:
        self.cells = self.unknown = 0
        self.estimated = self.taken = 0.0

    def add(self, estimate: float | None, taken: float, by: int) -> None:
        self.cells += by
        self.unknown += by if estimate is None else 0
        self.estimated += by * (estimate or 0.0)
        self.taken += by * taken

    def expected(self, mean: float) -> float:
        return self.estimated + mean * self.unknown


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
        for name in ("running", "elsewhere", "failed", "interrupted", "skipped")
        if found[name]
    ]
    return ", ".join(parts)
