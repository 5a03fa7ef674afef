"""What many runs show: a plan, progress (a bar, or a line for each run that ends), and an end with every failure."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table

from normexp.format import duration, pluralize
from normexp.machine import cores, precision_here
from normexp.sweeps.cell import WAITING, Cell
from normexp.sweeps.options import Options, threads_of
from normexp.sweeps.place import Place
from normexp.training.screen import say

SHOWN = 12  # most values of an axis that are written out
LABEL = "runs"
NARROW = 100  # letters of a screen
RUNNING_SHOWN = 2


def show_plan(
    cells: Sequence[Cell], place: Place | None, options: Options, logs: Path, console: Console, *, what: str
) -> None:
    """Print what will run and how; with `options.plan` an estimate of its time, from a few real steps.

    Args:
        place: None if nothing runs.
        what: the name in the first line.
    """
    to_run = [cell for cell in cells if cell.state == "planned"]
    rows = {what: pluralize(len(cells), "run")}
    for key, values in axes(cells).items():
        rows[f"  {key}"] = shortened(values)
    if len(to_run) < len(cells):
        rows["finished"] = f"{pluralize(len(cells) - len(to_run), 'run')}, skipped"
    if place is not None:
        rows["to run"] = f"{pluralize(len(to_run), 'run')}, {place}, {threads(to_run, place, options)}"
        precisions = dict.fromkeys(precision_here(cell.spec.config["trainer"]) for cell in to_run)
        if list(precisions) != ["32-true"]:
            rows["precision"] = ", ".join(precisions)
    if place is not None and options.plan:
        from normexp.sweeps.estimate import Estimates  # loads torch

        specs = [cell.spec for cell in to_run]
        rows["estimate"] = Estimates().describe(specs, place.at_once, options)
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", escape(text))
    console.print(grid, highlight=False)
    if to_run:  # not in the table, which would break a path into lines that cannot be copied
        width = max(map(len, rows))
        console.print(f"[bold]{'logs':<{width}}[/bold]  {escape(str(logs))}", highlight=False, soft_wrap=True)


def threads(cells: Sequence[Cell], place: Place, options: Options) -> str:
    """`1 thread each`, with a remedy where most cores would idle."""
    numbers = sorted({threads_of(cell.spec, options) for cell in cells})
    text = f"{' to '.join(map(str, numbers))} {'thread' if numbers == [1] else 'threads'} each"
    idle = cores() >= 2 * max(numbers) * min(place.at_once, len(cells))
    return text + ("; threads=2 or more use more cores" if idle and options.place == "here" else "")


def show_end(cells: Sequence[Cell], seconds: float, console: Console) -> None:
    """Print how many runs ended how, and the failures with their reasons."""
    console.print(
        f"\n{counts(Counter(cell.state for cell in cells))} in {duration(seconds)}", highlight=False
    )
    failed = [cell for cell in cells if cell.state == "failed"]
    say(console, *(f"failed: {cell.name}\n  {cell.error}\n  {cell.log}" for cell in failed))
    if left := [cell for cell in cells if cell.state in (*WAITING, "interrupted", "failed")]:
        console.print(
            f"{pluralize(len(left), 'run')} left: the same command goes on from here", highlight=False
        )


def axes(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Key -> its values in order."""
    values_of: dict[str, dict[str, None]] = {}
    for cell in cells:
        for part in cell.name.split():
            key, _, value = part.partition("=")
            values_of.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in values_of.items()}


def shortened(values: Sequence[str]) -> str:
    """`0 … 199` for consecutive whole numbers. Of many other values, the first ones and the last."""
    if len(values) > 3 and all(map(str.isdecimal, values)):
        numbers = list(map(int, values))
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{values[0]} … {values[-1]}"
    if len(values) > SHOWN:
        return f"{', '.join(values[: SHOWN - 1])}, … {values[-1]} ({len(values)} values)"
    return ", ".join(values)


class Board:
    """Progress over runs: a bar that is drawn twice per second, or one line per run if the output is no terminal.

    Sums change with each event, so an event costs the same for any number of cells.
    """

    def __init__(self, cells: Sequence[Cell], at_once: int, console: Console):
        self.at_once, self.console, self.total = max(at_once, 1), console, len(cells)
        self._states = Counter(cell.state for cell in cells)
        self._last = {id(cell): cell.state for cell in cells}
        self._running: dict[int, Cell] = {}
        self._most = 0  # runs seen at a time; a queue may start fewer than it takes
        self._ended, self._taken = 0, 0.0  # runs that ended by themselves, and their seconds
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

    def __enter__(self) -> "Board":
        self._progress.start()
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, cell: Cell) -> None:
        """Show the new state of a cell."""
        self._states[self._last[id(cell)]] -= 1
        self._states[cell.state] += 1
        self._last[id(cell)] = cell.state
        if cell.state == "running":
            self._running[id(cell)] = cell
            self._most = max(self._most, len(self._running))
        else:
            self._running.pop(id(cell), None)
        if cell.state in ("completed", "diverged"):
            self._ended, self._taken = self._ended + 1, self._taken + (cell.seconds or 0.0)
        ends = cell.state not in (*WAITING, "skipped")
        if ends and (not self.console.is_terminal or cell.state == "failed"):
            text = (
                f"{self.settled}/{self.total}  {cell.state:<11} {cell.label}  {duration(cell.seconds or 0.0)}"
            )
            text += f"  {cell.error}" if cell.error else ""
            say(self.console, text + self._remaining())
        if cell.state == "elsewhere" and not self.console.is_terminal:
            say(self.console, f"waits for another launch, which trains {cell.label}")
        self._draw()

    @property
    def settled(self) -> int:
        """Number of cells that wait for nothing."""
        return self.total - sum(self._states[state] for state in WAITING)

    def remaining(self) -> float:
        """Remaining seconds, if the open runs take as long as those that ended."""
        left = self.total - self.settled
        if not self._ended or not left:
            return 0.0
        return left * self._taken / self._ended / min(self._most or self.at_once, left)

    def _remaining(self) -> str:
        seconds = self.remaining()
        return f"  remaining {duration(seconds)}, at the pace of {self._ended} of them" if seconds else ""

    def _draw(self) -> None:
        names = [cell.label for cell, _ in zip(self._running.values(), range(RUNNING_SHOWN), strict=False)]
        hidden = len(self._running) - len(names)
        more = f" and {hidden} more" if hidden else ""
        text = f"{counts(self._states)}{self._remaining()}  {', '.join(names)}{more}"
        self._progress.update(self._task, completed=self.settled, total=self.total, text=escape(text))


def counts(states: Counter[str]) -> str:
    """The numbers of cells that are done, running, failed and so on, in words."""
    done = states["completed"] + states["diverged"]
    parts = [f"{done} done" + (f" ({states['diverged']} diverged)" if states["diverged"] else "")]
    others = ("running", "elsewhere", "failed", "interrupted", "skipped")
    return ", ".join([*parts, *(f"{states[name]} {name}" for name in others if states[name])])
