"""A figure of a page: a drawing, or the reason why there is none; its panels and its files."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from normexp.report.study import Study, spread_over

WIDTH, COLUMNS = 9.3, 4  # inches of a page, so that text has one size on it; panels side by side
MOST_PANELS = 8


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

    title: str
    reason: str


def save(drawing: Drawing, folder: Path, source: str) -> Markup:
    """Write PNG and PDF, with their source in the metadata. Returns the figure as an element of a page.

    `savefig` would lay out and draw each figure twice per format. The files have no date, so equal runs give equal
    files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figure, path = drawing.figure, folder / drawing.name
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")
    title = {"Title": drawing.title}
    FigureCanvasAgg(figure).print_png(f"{path}.png", metadata={**title, "Description": source})
    subject = {**title, "Subject": source, "CreationDate": None}
    FigureCanvasPdf(figure).print_pdf(f"{path}.pdf", metadata=subject)
    content = base64.b64encode(Path(f"{path}.png").read_bytes()).decode()
    # A figure of one panel is drawn for half a page, so that its text has the size of all others.
    width = min(100, 100 * figure.get_figwidth() / WIDTH)
    element = '<img alt="{}" style="width: {:.4g}%" src="data:image/png;base64,{}">'
    return Markup(element).format(drawing.title, width, content)


def save_all(figures: Sequence[Drawing | Skipped], folder: Path, source: str) -> dict[str, Markup]:
    """Write the drawings. Returns name -> element of a page."""
    return {item.name: save(item, folder, source) for item in figures if isinstance(item, Drawing)}


def new_figure(
    count: int, columns: int = 1, *, panel: tuple[float, float], ylabel: str = "", **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of so many equal panels and its axes, row by row; the left ones have the label. It is not made by
    pyplot, so it need not be closed."""
    rows = -(-count // columns)
    figure = Figure(figsize=(panel[0] * columns, panel[1] * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for spare in axes[count:]:
        spare.remove()
    for left in axes[:count:columns]:
        left.set_ylabel(ylabel)
    return figure, axes[:count]


def panels(
    keys: Sequence[Any], xlabel: str, ylabel: str, *, height: float = 2.5, **options: Any
) -> tuple[Figure, dict[Any, Axes]]:
    """key -> its panel, in even rows of at most four. The outer panels have the labels."""
    columns = -(-len(keys) // -(-len(keys) // COLUMNS))  # even rows: five panels stand as three and two
    width = WIDTH / max(columns, 2)
    figure, axes = new_figure(len(keys), columns, panel=(width, height), ylabel=ylabel, **options)
    for lowest in axes[-columns:]:
        lowest.set_xlabel(xlabel)
        lowest.tick_params(labelbottom=True)
    return figure, dict(zip(keys, axes, strict=True))


def levels_shown(study: Study) -> list[float]:
    """The levels that get a panel, evenly spread with the first and the last; [0] for a study without an axis."""
    return spread_over(study.levels or [0], MOST_PANELS)


def left_out(what: str, shown: int, of: int) -> str:
    """A sentence for the caption if there was no room for all."""
    return f" Shown are {shown} of {of} {what}, for room; the tables have all." if shown < of else ""
