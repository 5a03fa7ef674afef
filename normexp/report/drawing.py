"""A figure of the page: a drawing for wide and narrow screens, or the reason why there is none."""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from normexp.report.study import Study, label
from normexp.report.svg import inline, told_by

MOST_PANELS = 8
CHARACTER = 4.7  # points of a letter in a label, in the mean


@dataclass
class Drawing:
    """A figure with its title and caption."""

    name: str  # file name
    title: str  # the question that it answers
    caption: str
    figure: Figure
    tab: str | None = None  # consecutive drawings with tabs share one place on the page


@dataclass
class Skipped:
    """A figure for which the study has no data, with the reason."""

    name: str
    title: str
    reason: str


class Room(NamedTuple):
    """The room for a figure. `width`: inches, so that text has one size on the page; `columns`: panels side by side."""

    width: float
    columns: int


WIDE, NARROW = Room(9.3, 4), Room(4.5, 2)  # a page, and a phone
_room: ContextVar[Room] = ContextVar("room", default=WIDE)


def room() -> Room:
    """The room of the figures that are drawn now."""
    return _room.get()


@contextlib.contextmanager
def narrow() -> Iterator[None]:
    """Inside this context, figures are drawn for a narrow screen."""
    token = _room.set(NARROW)
    try:
        yield
    finally:
        _room.reset(token)


def save(drawing: Drawing, folder: Path, source: str) -> bytes:
    """Write PNG, PDF and SVG, with their source in the metadata. Returns the SVG for the page.

    `savefig` would lay out and draw each figure twice per format, a third of a report's time. The files have no date,
    so equal runs give equal files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figure, path = drawing.figure, folder / drawing.name
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")
    title = {"Title": drawing.title}
    FigureCanvasAgg(figure).print_png(f"{path}.png", metadata={**title, "Description": source})
    FigureCanvasPdf(figure).print_pdf(
        f"{path}.pdf", metadata={**title, "Subject": source, "CreationDate": None}
    )
    FigureCanvasSVG(figure).print_svg(f"{path}.svg", metadata={**title, "Description": source, "Date": None})
    return Path(f"{path}.svg").read_bytes()


def save_all(figures: Sequence[Drawing | Skipped], folder: Path, source: str) -> dict[str, Markup]:
    """Write the drawings. Returns name -> HTML for the page."""
    return {one.name: _html(one, save(one, folder, source)) for one in figures if isinstance(one, Drawing)}


def narrow_all(figures: Sequence[Drawing | Skipped]) -> dict[str, Markup]:
    """The same for figures drawn for a narrow screen, which only the page has."""
    found = {}
    for one in figures:
        if isinstance(one, Drawing):
            text = BytesIO()
            FigureCanvasSVG(one.figure).print_svg(text, metadata={"Date": None})
            found[one.name] = _html(one, text.getvalue(), "narrow-")
    return found


def _html(drawing: Drawing, svg: bytes, prefix: str = "") -> Markup:
    return inline(svg, f"{prefix}{drawing.name}", drawing.title, told_by(drawing.figure))


def new_figure(
    rows: int, columns: int, *, panel: tuple[float, float], **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels and its axes, row by row. It is not made by pyplot, so it need not be closed."""
    figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **options).flat)


def panels(
    keys: Sequence[Any], xlabel: str, ylabel: str, *, height: float = 2.5, names: Sequence[str] = (), **options: Any
) -> tuple[Figure, dict[Any, Axes]]:  # fmt: skip
    """key -> its panel, in rows of at most four. The outer panels have the labels.

    Args:
        names: those that will stand beside the lines. On a narrow screen long ones take a row for each panel.
    """
    here = room()
    columns = min(len(keys), here.columns)
    if here is NARROW and max(map(len, names), default=0) * CHARACTER > here.width * 72 / 4:
        columns = 1
    rows = -(-len(keys) // columns)
    width = here.width / (columns if here is NARROW else max(columns, 2))
    figure, axes = new_figure(rows, columns, panel=(width, height), **options)
    for spare in axes[len(keys) :]:
        spare.remove()
    for place in range(len(keys)):
        if place % columns == 0:
            axes[place].set_ylabel(ylabel)
        if place + columns >= len(keys):
            axes[place].set_xlabel(xlabel)
            axes[place].tick_params(labelbottom=True)
    return figure, dict(zip(keys, axes, strict=False))


def levels_shown(study: Study) -> list[float]:
    """The levels that get a panel, evenly spread with the first and the last; [0] for a study without an axis."""
    levels = study.levels or [0]
    if len(levels) <= MOST_PANELS:
        return levels
    return [levels[round(index * (len(levels) - 1) / (MOST_PANELS - 1))] for index in range(MOST_PANELS)]


def left_out(what: str, shown: int, of: int) -> str:
    """A sentence for the caption if there was no room for all."""
    return f" Shown are {shown} of {of} {what}, for room; the tables have all." if shown < of else ""


def level_title(study: Study, level: float) -> str:
    """The title of a level's panel, empty for a study without an axis."""
    return f"{label(study.x)} {level:g}" if study.x else ""


def middle(study: Study) -> float:
    """The level to show in a figure that has room for only one."""
    levels = study.levels or [0]
    return levels[len(levels) // 2]
