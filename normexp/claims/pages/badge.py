"""A badge: an SVG, and the JSON that badge services read (https://shields.io/badges/endpoint-badge)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from normexp.runs.files import atomic_write, write_json

COLORS = {"better": "#2a7f3f", "mixed": "#6a6a6a", "worse": "#b04a2f"}
LETTER, ROOM = 6.3, 12  # pixels of a letter of 11 pixels, and around a text


def message_of(rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """(text, color) of the norm against which it stands worst, so that no choice among norms flatters it."""
    worst = min(rows, key=lambda row: (row["ahead"] - row["behind"] - row["failed"], row["ahead"]))
    ahead, behind = worst["ahead"], worst["behind"] + worst["failed"]
    word = "better" if 2 * ahead > worst["n"] else "worse" if 2 * behind > worst["n"] else "mixed"
    return f"ahead of {worst['against']} in {ahead} of {worst['n']}, behind in {behind}", COLORS[word]


def write_badge(folder: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    """Write `badge.json` and `badge.svg`; returns the path of the SVG."""
    label, (message, color) = f"normexp: {name}", message_of(rows)
    write_json(
        folder / "badge.json", {"schemaVersion": 1, "label": label, "message": message, "color": color}
    )
    with atomic_write(folder / "badge.svg") as file:
        file.write(svg(label, message, color).encode())
    return folder / "badge.svg"


def svg(label: str, message: str, color: str) -> str:
    """Two texts beside each other, the second on a color."""
    left, right = (round(len(text) * LETTER) + ROOM for text in (label, message))
    texts = "".join(
        f'<text x="{x}" y="14" text-anchor="middle">{escape(text)}</text>'
        for text, x in ((label, left / 2), (message, left + right / 2))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">'
        f"<title>{escape(f'{label}: {message}')}</title>"
        f'<rect width="{left}" height="20" fill="#444"/><rect x="{left}" width="{right}" height="20" fill="{color}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )
