"""What a person sees of a sweep: the plan, its progress, and at the end every failure."""

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from normexp.config.code import in_words
from normexp.duration import duration
from normexp.invocation import command
from normexp.sweeps.cell import Cell

RUNNING_SHOWN = 2


def show_plan(cells: Sequence[Cell], workers: int, threads: int, logs: Path, console: Console) -> None:
    """Say what will be run, how, and how long that may take."""
    to_run = [cell for cell in cells if cell.state == "planned"]
    rows = {"sweep": count(cells)}
    for key, values in axes(cells).items():
        rows[f"  {key}"] = ", ".join(values)
    if len(to_run) < len(cells):
        rows["finished"] = f"{count([cell for cell in cells if cell.state == 'skipped'])}, skipped"
    if old := [cell for cell in cells if cell.other_code]:
        names = sorted({name for cell in old for name in cell.other_code})
        rows["of these"] = f"{count(old)} computed by {in_words(names)}; name=<another> trains them again"
    if to_run:
        each = f"{workers} at a time, {threads} thread{'s' * (threads > 1)} each"
        rows["to run"] = f"{count(to_run)}, {each if workers else 'one by one, in here'}"
        times = [cell.estimate for cell in to_run]
        rows["estimate"] = (
            "known after the first runs (a GPU computes)"
            if None in times
            else f"about {duration(sum(times) / max(workers, 1))}"
        )
    grid = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        grid.add_row(f"[bold]{name}[/bold]", escape(text))
    console.print(grid, highlight=False)
    if to_run:  # not in the table, whose lines break: a path that is copied must be whole
        width = max(map(len, rows))
        console.print(f"[bold]{'logs':<{width}}[/bold]  {escape(str(logs))}", highlight=False, soft_wrap=True)


def count(cells: Sequence[Cell]) -> str:
    """5 runs; 4 cells of 32 runs, where cells have replicas"""
    runs = sum(len(cell.folders) for cell in cells)
    return f"{runs} runs" if runs == len(cells) else f"{len(cells)} cells of {runs} runs"


def axes(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """What varies over the cells: key -> its values in order."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        for part in cell.name.split():
            key, _, value = part.partition("=")
            if value not in found.setdefault(key, []):
                found[key].append(value)
    return found


class Board:
    """Progress over runs: a bar that is drawn twice a second, or a line a run where the output is no terminal."""

    def __init__(self, cells: Sequence[Cell], workers: int, console: Console):
        self.cells = cells
        self.workers = max(workers, 1)
        self.console = console
        self.started = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
        )
        self._progress = Progress(
            *columns, console=console, refresh_per_second=2, disable=not console.is_terminal
        )
        self._task = self._progress.add_task("runs", total=len(cells), text="")

    def __enter__(self) -> "Board":
        self._progress.start()
        self.update()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def update(self, changed: Cell | None = None) -> None:
        ran = [cell for cell in self.cells if cell.seconds is not None]
        settled = len(ran) + sum(cell.state == "skipped" for cell in self.cells)
        ended = changed is not None and changed.seconds is not None
        if ended and (not self.console.is_terminal or changed.state == "failed"):
            text = (
                f"{settled}/{len(self.cells)}  {changed.state:<11} {changed.run}  {duration(changed.seconds)}"
            )
            text += f"  {changed.error}" if changed.error else ""
            text += f"  remaining {duration(self.remaining())}" if self.remaining() else ""
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        if changed is not None and changed.state == "elsewhere" and not self.console.is_terminal:
            text = f"waits for another launch, which trains {changed.run}"
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        running = [cell.run for cell in self.cells if cell.state == "running"]
        more = f" and {len(running) - RUNNING_SHOWN} more" if len(running) > RUNNING_SHOWN else ""
        remaining = f"remaining {duration(self.remaining())}  " if self.remaining() else ""
        text = f"{counts(self.cells)}  {remaining}{', '.join(running[:RUNNING_SHOWN])}{more}"
        self._progress.update(self._task, completed=settled, text=escape(text))

    def remaining(self) -> float:
        """Seconds still to go: what was estimated for the open runs, corrected by how the ended ones went."""
        ran = [cell for cell in self.cells if cell.seconds is not None]
        left = [cell for cell in self.cells if cell.state in ("planned", "running", "elsewhere")]
        if not ran or not left:
            return 0.0
        mean = sum(cell.seconds for cell in ran) / len(ran)
        expected = sum(cell.estimate or mean for cell in ran)
        pace = sum(cell.seconds for cell in ran) / expected
        return pace * sum(cell.estimate or mean for cell in left) / min(self.workers, len(left))


def counts(cells: Sequence[Cell]) -> str:
    """How many cells are done, running, failed and so on."""
    found = Counter(cell.state for cell in cells)
    done = found["completed"] + found["diverged"]
    parts = [f"{done} done" + (f" ({found['diverged']} diverged)" if found["diverged"] else "")]
    parts += [
        f"{found[name]} {name}"
        for name in ("running", "elsewhere", "failed", "interrupted", "skipped")
        if found[name]
    ]
    return ", ".join(parts)


def show_end(cells: Sequence[Cell], seconds: float, study: Path, console: Console) -> None:
    """Say what came of the sweep, what failed and why, and what to do next."""
    console.print(f"\n{counts(cells)} in {duration(seconds)}", highlight=False)
    for cell in cells:
        if cell.state == "failed":
            console.print(
                f"failed: {cell.name}\n  {cell.error}\n  {cell.log}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    left = sum(cell.state in ("planned", "running", "elsewhere", "interrupted", "failed") for cell in cells)
    if left:
        console.print(f"{left} runs are left: the same command goes on from here", highlight=False)
    path = shlex.quote(str(study))
    console.print(f"report: {command('report')} {path}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"look:   tensorboard --logdir {path}", highlight=False, markup=False, soft_wrap=True)
