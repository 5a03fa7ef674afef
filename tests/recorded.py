"""What a run recorded: the rows of the one metrics.csv in or below a folder."""

import csv
from pathlib import Path


def rows(folder: Path) -> list[dict[str, str]]:
    (path,) = folder.rglob("metrics.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def curve(folder: Path) -> list[tuple[str, ...]]:
    """All rows but their seconds."""
    return [(row["step"], row["epoch"], row["metric"], row["value"]) for row in rows(folder)]


def points(folder: Path) -> dict[tuple[str, str], float]:
    """(step, metric) -> value."""
    return {(row["step"], row["metric"]): float(row["value"]) for row in rows(folder)}
