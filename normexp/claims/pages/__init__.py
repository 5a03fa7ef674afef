"""Figures and pages of verdicts. Imports no torch."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from normexp.claims.judge.plain_words import NOT_RUN
from normexp.runs.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # takes a second to import


def markdown_page(template: str, **values: Any) -> str:
    """A page of Markdown from a template of this folder."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template(template).render(table=markdown_table, **values)


def status(verdict: dict[str, Any] | None) -> str:
    """The verdict's word, or why there is none."""
    return verdict["verdict"] if verdict else NOT_RUN


def save_figure(figure: "Figure", path: Path, **options: Any) -> None:
    """Write a figure whole or not at all, in the format that the path names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], **options)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence], numbers: Sequence[int] = ()) -> str:
    """A table in Markdown; the columns at the places `numbers` are aligned to the right."""
    rule = "".join("--:|" if place in numbers else "---|" for place in range(len(columns)))
    return "\n".join([_row(columns), f"|{rule}", *map(_row, rows)])


def _row(cells: Sequence) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
