"""Print the results of replicas: one line each, then their mean with its interval over seeds."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from normexp.counted import counted
from normexp.runs.intervals import half_widths
from normexp.training.run_screen import show_hint, status_line

LEVEL = 0.95
SCORES = {"val": "val/accuracy", "test": "test/accuracy"}


def show_replicas(summaries: list[dict[str, Any]], folders: list[Path], console: Console) -> None:
    """Print one line per replica, the mean of each learning rate, and the folders."""
    table = Table(show_edge=False, pad_edge=False)
    for column in ("seed", "lr", *SCORES, "status", "folder"):
        left = column in ("status", "folder")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for summary, folder in zip(summaries, folders, strict=True):
        scores = [_percent(summary["metrics"].get(metric)) for metric in SCORES.values()]
        rate = f"{summary['config']['lr']:g}"
        table.add_row(str(summary["config"]["seed"]), rate, *scores, status_line(summary), Text(folder.name))
    # Its full width, so that no name is cut. A narrow terminal wraps the lines itself.
    table.width = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    console.print(table, highlight=False, crop=False)
    for line in means(summaries):
        console.print(line, highlight=False, markup=False)
    show_hint(summaries, folders, console)
    console.print(f"folder: {folders[0].parent}", highlight=False, markup=False, soft_wrap=True)


def means(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """One line per learning rate with several seeds: the mean of its completed runs and its 95% t interval."""
    by_rate: dict[float, list[dict[str, Any]]] = {}
    for summary in sorted(summaries, key=lambda summary: summary["config"]["lr"]):
        by_rate.setdefault(summary["config"]["lr"], []).append(summary)
    at = " at lr {:g}" if len(by_rate) > 1 else ""
    return [mean_line(own, at.format(rate)) for rate, own in by_rate.items() if len(own) > 1]


def mean_line(summaries: Sequence[dict[str, Any]], at: str) -> str:
    """`mean of 5 seeds: val 97.36% ± 0.49, test 97.78% ± 0.69 (95% interval over seeds)`"""
    whole = [summary for summary in summaries if summary["status"] == "completed"]
    lost = len(summaries) - len(whole)
    if not whole:
        return f"all {counted(lost, 'seed')}{at} diverged"
    parts = []
    for name, metric in SCORES.items():
        values = np.array([summary["metrics"][metric] for summary in whole])
        half = float(half_widths(values.std(ddof=1), len(values), LEVEL)) if len(values) > 1 else math.nan
        parts.append(f"{name} {_percent(values.mean())}" + (f" ± {100 * half:.2f}" if half == half else ""))
    some = (
        f"the {len(whole)} of {len(summaries)} seeds that completed" if lost else counted(len(whole), "seed")
    )
    interval = " (95% interval over seeds)" if len(whole) > 1 else ""
    return f"mean of {some}{at}: {', '.join(parts)}{interval}"


def _percent(score: float | None) -> str:
    return f"{score:.2%}" if score is not None else "–"
