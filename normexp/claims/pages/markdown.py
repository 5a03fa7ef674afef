"""Pages and tables of Markdown."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2


def markdown_page(template: str, **values: Any) -> str:
    """A page of Markdown from a template of this folder."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return environment.get_template(template).render(table=markdown_table, **values)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence], numbers: Sequence[int] = ()) -> str:
    """A table in Markdown; the columns at the places `numbers` are aligned to the right."""
    rule = "".join("--:|" if index in numbers else "---|" for index in range(len(columns)))
    return "\n".join([_row(columns), f"|{rule}", *map(_row, rows)])


def _row(cells: Sequence) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"
