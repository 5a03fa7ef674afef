"""Make named figures and the page that shows them. Each leaves NAME.png, .pdf, .svg and .json in a folder."""

import importlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from normexp.config.process import command
from normexp.figures.lab import FIGURES, Lab, Named
from normexp.figures.plot import Plot, draw
from normexp.runs.files import atomic_write

ROOMS = ("of_training", "of_curvature", "of_initialization", "of_transformers")


def figures() -> dict[str, Named]:
    """All figures by name, in the order of the page."""
    for room in ROOMS:
        importlib.import_module(f"normexp.figures.{room}")
    return FIGURES


def chosen(words: Sequence[str]) -> list[Named]:
    """The figures of these names; `all` means each. Raises ValueError for a name that is none."""
    known = figures()
    if list(words) == ["all"]:
        return list(known.values())
    from normexp.cli.help import suggest

    for word in words:
        if word not in known:
            raise ValueError(f"{word}: no such figure; {suggest(word, list(known))}")
    return [known[word] for word in words]


def make(
    one: Named, folder: Path, *, small: bool = False, say: Callable[[str], None] = lambda words: None
) -> Plot:
    """Compute a figure and write its files. Its runs are kept under `folder`/runs and used again."""
    from normexp.report.drawing import Drawing, save
    from normexp.report.style import drawing_style

    began = time.process_time()
    plot = one.make(Lab(folder, small=small, say=say))
    numbers = {
        "name": one.name, "title": one.title, "source": one.source, "paper": one.paper, **plot.numbers(),
        "command": f"{command('figure')} {one.name}", "small": small,
        "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip
    with drawing_style():
        save(Drawing(one.name, one.title, plot.seen, draw(plot)), folder, one.source)
    with atomic_write(folder / f"{one.name}.json") as file:
        file.write(json.dumps(numbers, indent=1).encode())
    return plot


def write_page(folder: Path) -> Path:
    """`index.html` with every figure that lies in the folder: what is seen, what the paper shows, and the command."""
    from normexp.report.page import render

    known = list(figures())
    made = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    made = sorted((one for one in made if one.get("name") in known), key=lambda one: known.index(one["name"]))
    missing = [name for name in known if name not in {one["name"] for one in made}]
    with atomic_write(folder / "index.html") as file:
        file.write(
            render(
                "gallery.html.j2", figures=made, missing=missing, start=command("figure"), dark={}
            ).encode()
        )
    return folder / "index.html"
