"""Make named figures and the page that shows them. Each leaves NAME.png, .pdf and .json in a folder."""

import importlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from normexp.config.process import command
from normexp.figures.lab import FIGURES, Lab, Named
from normexp.figures.plot import Plot, draw
from normexp.runs.files import write_text

ROOMS = ("of_training", "of_curvature", "of_initialization", "of_transformers")


def figures() -> dict[str, Named]:
    """All figures by name, in the order of the page."""
    for room in ROOMS:
        importlib.import_module(f"normexp.figures.{room}")
    return FIGURES


def chosen(words: Sequence[str]) -> list[Named]:
    """The figures of these names; `all` means each. Raises ValueError for a name that is none, or without a name."""
    from normexp.config.options import suggest

    available = figures()
    if not words:
        raise ValueError(f"name a figure, or all; choose from: {', '.join(available)}")
    for word in words:
        if word not in (*available, "all"):
            raise ValueError(f"{word}: no such figure; {suggest(word, list(available))}")
    return list(available.values()) if "all" in words else [available[word] for word in words]


def make(
    entry: Named, folder: Path, *, small: bool = False, say: Callable[[str], None] = lambda words: None
) -> Plot:
    """Compute a figure and write its files. Its runs are kept under `folder`/runs and used again."""
    from normexp.report.drawing import Drawing, save
    from normexp.report.style import drawing_style

    began = time.process_time()
    plot = entry.make(Lab(folder, small=small, say=say))
    numbers = {
        "name": entry.name, "title": entry.title, "source": entry.source, "paper": entry.paper, **plot.numbers(),
        "command": f"{command('figure')} {entry.name}", "small": small,
        "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip
    with drawing_style():
        save(Drawing(entry.name, entry.title, plot.seen, draw(plot)), folder, entry.source)
    write_text(folder / f"{entry.name}.json", json.dumps(numbers, indent=1))
    return plot


def write_page(folder: Path) -> Path:
    """`index.html` with every figure that lies in the folder: what is seen, what the paper shows, and the command."""
    from normexp.report.page import save_page

    records = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    made = {record.get("name"): record for record in records}
    shown = [made[name] for name in figures() if name in made]
    missing = [name for name in figures() if name not in made]
    values = {"figures": shown, "missing": missing, "start": command("figure"), "dark": {}}
    return save_page(folder, "gallery.html.j2", **values)
