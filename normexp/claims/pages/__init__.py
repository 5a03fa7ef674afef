"""Figures and pages of verdicts. Imports no torch."""

from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence], numbers: Sequence[int] = ()) -> str:
    """A table in Markdown; the columns at the places `numbers` are aligned to the right."""
    rule = "".join("--:|" if place in numbers else "---|" for place in range(len(columns)))
    return "\n".join([_row(columns), f"|{rule}", *map(_row, rows)])


def _row(cells: Sequence) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
