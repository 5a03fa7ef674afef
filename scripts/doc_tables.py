"""What the generators of docs share: tables in Markdown, places between markers, and the rows of a JSON file."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DATA = DOCS / "data"  # the numbers behind the pages


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table. A cell that is None is a dash."""
    head = list(head)
    lines = [
        head,
        ["---"] * len(head),
        *(["–" if cell is None else str(cell) for cell in row] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with each part between `<!-- numbers: NAME -->` and `<!-- end -->`.

    Raises ValueError if a part has no place, or several.
    """
    for name, part in parts.items():
        pattern = rf"(<!-- numbers: {re.escape(name)} -->\n).*?(<!-- end -->)"
        text = part.replace("\\", "\\\\")  # as a template of `re`
        page, count = re.subn(pattern, rf"\g<1>{text}\n\g<2>", page, flags=re.S)
        if count != 1:
            raise ValueError(f"{count} places are marked `numbers: {name}`; mark one")
    return page


def fill(page: Path, parts: dict[str, str]) -> None:
    """Write these parts into a page; see `filled`."""
    page.write_text(filled(page.read_text(), parts))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """A JSON list with a row on each line, which git can merge."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of such a file; none if there is no file."""
    return json.loads(path.read_text()) if path.exists() else []
