"""What many runs show: a plan, progress (a bar, or a line for each run that ends), and an end with every failure."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table

from normexp.format import duration, pluralize
from normexp.sweeps.job import WAITING, Cell
from normexp.sweeps.options import Options
from normexp.sweeps.place import Place
from normexp.training.screen import say

SHOWN = 12  # most values of an axis that are written out


def show_plan(
    cells: Sequence[Cell], place: Place | None, options: Options, logs: Path, console: Console, *, what: str
) -> None:
    """Print what will run and how; with `options.plan` an estimate of its time, from a few real steps.

    Args:
        place: None if nothing runs.
        what: the name in the first line.
    """
    to_run = [cell for cell in cells if cell.state == "planned"]
    rows = {what: pluralize(len(cells), "run"), **axes(cells)}
    if len(to_run) < len(cells):
        rows["finished"] = f"{pluralize(len(cells) - len(to_run), 'run')}, skipped"
    if place is not None:
        numbers = sorted({cell.job.threads for cell in to_run})
        threads = f"{' to '.join(map(str, numbers))} {'thread' if numbers == [1] else 'threads'} each"
        rows["to run"] = f"{pluralize(len(to_run), 'run')}, {place}, {threads}"
        precisions = dict.fromkeys(
            str(cell.spec.config["trainer"].get("precision", "32-true")) for cell in to_run
        )
        if list(precisions) != ["32-true"]:
            rows["precision"] = ", ".join(precisions)
    if place is not None and options.plan:
        from normexp.sweeps.estimate import Estimates  # loads torch

        rows["estimate"] = Estimates().describe([cell.spec for cell in to_run], place.at_once)
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", escape(text))
    console.print(grid, highlight=False)
    if to_run:  # not in the table, which would break a path into lines that cannot be copied
        say(console, f"{'logs':<{max(map(len, rows))}}  {logs}")


def axes(cells: Sequence[Cell]) -> dict[str, str]:
    """Key -> its values, of the names of cells."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        for part in cell.name.split():
            key, _, value = part.partition("=")
            found.setdefault(f"  {key}", {})[value] = None
    return {key: listed(list(values)) for key, values in found.items()}


def listed(values: list[str]) -> str:
    """A few values as they are, whole numbers in a row as `0 … 199`, of others the ends and how many."""
    in_a_row = values[0].isdecimal() and values == [str(int(values[0]) + n) for n in range(len(values))]
    if len(values) <= (3 if in_a_row else SHOWN):
        return ", ".join(values)
    return f"{values[0]} … {values[-1]}" + ("" if in_a_row else f" ({len(values)} values)")


def show_end(cells: Sequence[Cell], seconds: float, console: Console) -> None:
    """Print how many runs ended how, and the failures with their reasons."""
    say(console, f"\n{counts(Counter(cell.state for cell in cells))} in {duration(seconds)}")
    failed = [cell for cell in cells if cell.state == "failed"]
    say(console, *(f"failed: {cell.name}\n  {cell.error}\n  {cell.job.log}" for cell in failed))
    if left := [cell for cell in cells if cell.state in (*WAITING, "interrupted", "failed")]:
        say(console, f"{pluralize(len(left), 'run')} left: the same command goes on from here")


class Board:
    """Progress over runs: a bar, or one line per run if the output is no terminal.

    Sums change with each event, so an event costs the same for any number of cells.
    """

    def __init__(self, cells: Sequence[Cell], at_once: int, console: Console):
        self.at_once, self.console, self.total = at_once, console, len(cells)
        self._states = Counter(cell.state for cell in cells)
        self._last = {id(cell): cell.state for cell in cells}
        self._most = 0  # runs seen at a time; a queue may start fewer than it takes
        self._ended, self._taken = 0, 0.0  # runs that ended by themselves, and their seconds
        whole = Column(no_wrap=True, min_width=len(f"{len(cells)}/{len(cells)}"))
        self._progress = Progress(
            TextColumn("runs"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(table_column=whole),
            TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True)),
            console=console,
            refresh_per_second=2,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("runs", total=len(cells), text="")

    def __enter__(self) -> "Board":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, cell: Cell) -> None:
        """Show the new state of a cell."""
        self._states[self._last[id(cell)]] -= 1
        self._states[cell.state] += 1
        self._last[id(cell)] = cell.state
        self._most = max(self._most, self._states["running"])
        if cell.state in ("completed", "diverged"):
            self._ended, self._taken = self._ended + 1, self._taken + cell.seconds
        settled = self.total - sum(self._states[state] for state in WAITING)
        remaining, ends = self._remaining(self.total - settled), cell.state not in (*WAITING, "skipped")
        if ends and (not self.console.is_terminal or cell.state == "failed"):
            text = f"{settled}/{self.total}  {cell.state:<11} {cell.label}  {duration(cell.seconds)}"
            say(self.console, f"{text}{f'  {cell.error}' if cell.error else ''}{remaining}")
        if cell.state == "elsewhere" and not self.console.is_terminal:
            say(self.console, f"waits for another launch, which trains {cell.label}")
        text = escape(f"{counts(self._states)}{remaining}")
        self._progress.update(self._task, completed=settled, text=text)

    def _remaining(self, left: int) -> str:
        """The remaining time, if the open runs take as long as those that ended."""
        if not self._ended or not left:
            return ""
        seconds = left * self._taken / self._ended / min(self._most or self.at_once, left)
        return f"  remaining {duration(seconds)}, at the pace of {self._ended} of them"


def counts(states: Counter[str]) -> str:
    """The numbers of cells that are done, running, failed and so on, in words."""
    done = states["completed"] + states["diverged"]
    parts = [f"{done} done" + (f" ({states['diverged']} diverged)" if states["diverged"] else "")]
    others = ("running", "elsewhere", "failed", "interrupted", "skipped")
    return ", ".join([*parts, *(f"{states[name]} {name}" for name in others if states[name])])
