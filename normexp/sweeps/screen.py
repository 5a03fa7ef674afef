"""Print the plan of many runs, and at the end the results and every failure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from normexp.config.code import in_words
from normexp.format import duration
from normexp.machine import in_bytes, precision_here
from normexp.sweeps.board import counts
from normexp.sweeps.cell import WAITING, Cell
from normexp.sweeps.places.place import Place

SHOWN = 12  # most values of an axis that are written out


def show_plan(
    cells: Sequence[Cell],
    place: Place,
    logs: Path,
    console: Console,
    *,
    what: str = "sweep",
    more: Mapping[str, str] | None = None,
) -> None:
    """Print what will run, how, and the estimated time.

    Args:
        place: its text says how runs are computed.
        what: the name in the first line.
        more: additional lines.
    """
    to_run = [cell for cell in cells if cell.state == "planned"]
    rows = {what: count(cells)}
    for key, values in axes(cells).items():
        rows[f"  {key}"] = shortened(values)
    if len(to_run) < len(cells):
        rows["finished"] = f"{count([cell for cell in cells if cell.state == 'skipped'])}, skipped"
    if old := [cell for cell in cells if cell.other_code]:
        names = sorted({name for cell in old for name in cell.other_code})
        rows["of these"] = f"{count(old)} computed by {in_words(names)}; name=<another> trains them again"
    if to_run:
        rows["to run"] = f"{count(to_run)}, {place}"
        precisions = dict.fromkeys(precision_here(cell.config["trainer"]) for cell in to_run)
        if list(precisions) != ["32-true"]:
            rows["precision"] = ", ".join(precisions)
        rows["estimate"] = estimate(to_run, place)
    grid = Table.grid(padding=(0, 2))
    for name, text in (rows | dict(more or {})).items():
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
    return f"about {duration(wall)}: {core_minutes(sum(times) * max(place.threads, 1))}{more}"


def core_minutes(seconds: float) -> str:
    """Time of one core for people."""
    return f"{seconds / 60:.3g} core-minutes"


def planned_and_used(cells: Sequence[Cell], threads: int) -> str | None:
    """`planned 6 core-minutes, used 6.4 (1.07); memory of a process: planned 1.1 GB, used 1.2 GB`, over the runs of
    this launch of which both are known; None where there is none."""
    known = [cell for cell in cells if cell.used and cell.estimate is not None and cell.state == "completed"]
    if not known:
        return None
    planned = sum(cell.estimate or 0.0 for cell in known) * max(threads, 1)
    used = sum(cell.used.seconds for cell in known if cell.used)
    line = f"planned {core_minutes(planned)}, used {used / 60:.3g} ({used / planned:.2f} of it)"
    if memory := max(cell.memory for cell in known):
        most = max(cell.used.memory for cell in known if cell.used)
        line += f"; memory of a process: planned {in_bytes(memory)}, used {in_bytes(most)}"
    return line


def count(cells: Sequence[Cell]) -> str:
    """5 runs, or, if cells have replicas, 4 cells of 32 runs."""
    runs = sum(len(cell.folders) for cell in cells)
    return f"{runs} runs" if runs == len(cells) else f"{len(cells)} cells of {runs} runs"


def show_end(
    cells: Sequence[Cell],
    seconds: float,
    console: Console,
    threads: int = 1,
) -> None:
    """Print the results, what they cost, and the failures with their reasons."""
    console.print(f"\n{counts(cells)} in {duration(seconds)}", highlight=False)
    if cost := planned_and_used(cells, threads):
        console.print(cost, highlight=False, soft_wrap=True)
    for cell in cells:
        if cell.state == "failed":
            console.print(
                f"failed: {cell.name}\n  {cell.error}\n  {cell.log}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    left = sum(cell.state in (*WAITING, "interrupted", "failed") for cell in cells)
    if left:
        console.print(f"{left} runs are left: the same command goes on from here", highlight=False)


def axes(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Key -> its values in order."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        for part in cell.name.split():
            key, _, value = part.partition("=")
            found.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in found.items()}


def shortened(values: Sequence[str]) -> str:
    """`0 … 199` for consecutive whole numbers. Of many other values, the first ones and the last."""
    if len(values) > 3 and all(map(str.isdecimal, values)):
        numbers = list(map(int, values))
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{values[0]} … {values[-1]}"
    if len(values) > SHOWN:
        return f"{', '.join(values[: SHOWN - 1])}, … {values[-1]} ({len(values)} values)"
    return ", ".join(values)
