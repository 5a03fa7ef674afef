"""What a sweep shows: its plan, its progress (a bar, or a line for each run that ends), its end with every failure."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table

from normexp.format import duration, pluralize
from normexp.machine import in_bytes, precision_here
from normexp.sweeps.cell import WAITING, Cell
from normexp.sweeps.places.place import Place
from normexp.training.screen import say

SHOWN = 12  # most values of an axis that are written out
LABEL = "runs"
NARROW = 100  # letters of a screen
RUNNING_SHOWN = 2


def show_plan(
    cells: Sequence[Cell], place: Place, logs: Path, console: Console, *, what: str = "sweep"
) -> None:
    """Print what will run, how, and the estimated time.

    Args:
        place: its text says how runs are computed.
        what: the name in the first line.
    """
    to_run = [cell for cell in cells if cell.state == "planned"]
    rows = {what: count(cells)}
    for key, values in axes(cells).items():
        rows[f"  {key}"] = shortened(values)
    if len(to_run) < len(cells):
        rows["finished"] = f"{count([cell for cell in cells if cell.state == 'skipped'])}, skipped"
    if old := [cell for cell in cells if cell.other_numerics]:
        rows["of these"] = f"{count(old)} with {old[0].other_numerics}; name=<another> trains them again"
    if to_run:
        rows["to run"] = f"{count(to_run)}, {place}"
        precisions = dict.fromkeys(precision_here(cell.config["trainer"]) for cell in to_run)
        if list(precisions) != ["32-true"]:
            rows["precision"] = ", ".join(precisions)
        rows["estimate"] = estimate(to_run, place)
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", escape(text))
    console.print(grid, highlight=False)
    if to_run:  # not in the table, which would break a path into lines that cannot be copied
        width = max(map(len, rows))
        console.print(f"[bold]{'logs':<{width}}[/bold]  {escape(str(logs))}", highlight=False, soft_wrap=True)


def estimate(cells: Sequence[Cell], place: Place) -> str:
    """`about 3 min: 6 core-minutes, 1.1 GB a process`. On an otherwise idle machine."""
    times = [cell.estimate for cell in cells if cell.estimate is not None]
    if len(times) < len(cells):
        return "known after the first runs (a GPU computes)"
    wall = max(sum(times) / min(max(place.at_once, 1), len(cells)), max(times))
    memory = max(cell.memory for cell in cells)
    more = f", {in_bytes(memory)} a process" if memory else ""
    return f"about {duration(wall)}{place.beside}: {core_minutes(sum(times) * max(place.threads, 1))}{more}"


def core_minutes(seconds: float) -> str:
    """Time of one core for people."""
    return f"{seconds / 60:.3g} core-minutes"


def planned_and_used(cells: Sequence[Cell], threads: int) -> str | None:
    """`planned 6 core-minutes, used 6.4 (107% of it); memory of a process: planned 1.1 GB, used 1.2 GB`, over the runs
    of this launch of which both are known; None where there is none."""
    ended = [cell for cell in cells if cell.used and cell.estimate is not None and cell.state == "completed"]
    if not ended:
        return None
    planned = sum(cell.estimate or 0.0 for cell in ended) * max(threads, 1)
    used = sum(cell.used.seconds for cell in ended if cell.used)
    line = f"planned {core_minutes(planned)}, used {used / 60:.3g} ({used / planned:.0%} of it)"
    if memory := max(cell.memory for cell in ended):
        most = max(cell.used.memory for cell in ended if cell.used)
        line += f"; memory of a process: planned {in_bytes(memory)}, used {in_bytes(most)}"
    return line


def count(cells: Sequence[Cell]) -> str:
    """`5 runs`"""
    return pluralize(len(cells), "run")


def show_end(cells: Sequence[Cell], seconds: float, console: Console, threads: int = 1) -> None:
    """Print the results, what they cost, and the failures with their reasons."""
    states = Counter(cell.state for cell in cells)
    console.print(f"\n{counts(states)} in {duration(seconds)}", highlight=False)
    if cost := planned_and_used(cells, threads):
        console.print(cost, highlight=False, soft_wrap=True)
    failed = [cell for cell in cells if cell.state == "failed"]
    say(console, *(f"failed: {cell.name}\n  {cell.error}\n  {cell.log}" for cell in failed))
    left = [cell for cell in cells if cell.state in (*WAITING, "interrupted", "failed")]
    if left:
        console.print(f"{count(left)} left: the same command goes on from here", highlight=False)


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
        self._running = {id(cell): cell for cell in cells if cell.state == "running"}
        seconds = [cell.estimate for cell in cells if cell.estimate is not None]
        self._usual = sum(seconds) / len(seconds) if seconds else 1.0  # seconds of a run without an estimate
        self._expected = sum(self._seconds(cell) for cell in cells if cell.state in WAITING)
        self._most = 0  # runs seen at a time; a queue may start fewer than it takes
        # of the runs that ended: their estimates, and the seconds that they took
        self._ended = self._taken = 0.0
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

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def update(self, changed: Cell) -> None:
        """Show the new state of a cell."""
        before = self._last[id(changed)]
        self._last[id(changed)] = changed.state
        self._states[before] -= 1
        self._states[changed.state] += 1
        if changed.state == "running":
            self._running[id(changed)] = changed
            self._most = max(self._most, len(self._running))
        else:
            self._running.pop(id(changed), None)
        if before in WAITING and changed.state not in WAITING:
            self._expected -= self._seconds(changed)
            if changed.seconds is not None:
                self._ended += self._seconds(changed)
                self._taken += changed.seconds
        if changed.seconds is not None and (not self.console.is_terminal or changed.state == "failed"):
            text = f"{self.settled}/{self.total}  {changed.state:<11} {changed.label}  {duration(changed.seconds)}"
            text += f"  {changed.error}" if changed.error else ""
            text += f"  remaining {duration(self.remaining())}" if self.remaining() else ""
            say(self.console, text)
        if changed.state == "elsewhere" and not self.console.is_terminal:
            say(self.console, f"waits for another launch, which trains {changed.label}")
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
        return self._expected * self._taken / self._ended / min(self._most or self.at_once, left)

    def _seconds(self, cell: Cell) -> float:
        return self._usual if cell.estimate is None else cell.estimate

    def _draw(self) -> None:
        names = [cell.label for cell, _ in zip(self._running.values(), range(RUNNING_SHOWN), strict=False)]
        hidden = len(self._running) - len(names)
        more = f" and {hidden} more" if hidden else ""
        remaining = f"remaining {duration(self.remaining())}  " if self.remaining() else ""
        text = f"{counts(self._states)}  {remaining}{', '.join(names)}{more}"
        self._progress.update(self._task, completed=self.settled, total=self.total, text=escape(text))


def counts(states: Counter[str]) -> str:
    """The numbers of cells that are done, running, failed and so on, in words."""
    done = states["completed"] + states["diverged"]
    parts = [f"{done} done" + (f" ({states['diverged']} diverged)" if states["diverged"] else "")]
    parts += [
        f"{states[name]} {name}"
        for name in ("running", "elsewhere", "paused", "cut", "failed", "interrupted", "skipped")
        if states[name]
    ]
    return ", ".join(parts)
