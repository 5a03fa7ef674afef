"""A figure of a page: a drawing, or the reason why there is none; its panels and its files."""

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines

# A sign that no font has shows as a box.
warnings.filterwarnings("ignore", message="Glyph .* missing from font")
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


def save_all(
    figures: Sequence[Drawing | Skipped], folder: Path, source: str, *, pdf: bool = False
) -> dict[str, Markup]:
    """Write the drawings, with their source in the metadata. Returns name -> element of a page."""
    return {item.name: save(item, folder, source, pdf=pdf) for item in figures if isinstance(item, Drawing)}


def save(drawing: Drawing, folder: Path, source: str, *, pdf: bool = False) -> Markup:
    """Write a PNG, and a PDF if asked: its fonts take most of the time. The files have no date, so equal runs give
    equal files. Returns the element of a page, on which text has one size: a single panel takes half its width."""
    folder.mkdir(parents=True, exist_ok=True)
    figure, png = drawing.figure, io.BytesIO()
    figure.get_layout_engine().execute(figure)  # once: `savefig` would lay it out twice per format
    figure.set_layout_engine("none")
    FigureCanvasAgg(figure).print_png(png, metadata={"Title": drawing.title, "Description": source})
    (folder / f"{drawing.name}.png").write_bytes(png.getvalue())
    if pdf:
        about = {"Title": drawing.title, "Subject": source, "CreationDate": None}
        FigureCanvasPdf(figure).print_pdf(folder / f"{drawing.name}.pdf", metadata=about)
    width = min(100, 100 * figure.get_figwidth() / WIDTH)
    kind = "wide" if width > 60 else "half"  # on a phone a wide one scrolls instead of shrinking
    element = '<img alt="{}" class="{}" style="width: {:.4g}%" src="data:image/png;base64,{}">'
    return Markup(element).format(drawing.title, kind, width, base64.b64encode(png.getvalue()).decode())


def new_figure(
    count: int, columns: int = 1, *, panel: tuple[float, float], ylabel: str = "", **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels, not pyplot's, so it need not be closed; and its axes by rows, labeled at the left."""
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


def level_panels(
    study: Study, style: Style, xlabel: str, ylabel: str, draw: Callable[[Axes, float], dict[str, float]],
    **options: Any,
) -> tuple[Figure, str]:  # fmt: skip
    """One panel per level, with the arms' names beside the last. Returns the figure, and what its caption must add.
    `draw` draws a panel, and returns where the line of each arm ends."""
    height = height_for(study.arms, 2.5)
    figure, panel_of = panels(
        study.some_levels(MOST_PANELS), xlabel, ylabel, height=height, sharey=True, **options
    )
    for level, axes in panel_of.items():
        ends = draw(axes, level)
        axes.set_title(study.level_title(level))
        if axes is list(panel_of.values())[-1] or len(panel_of) <= 2:
            label_lines(axes, ends, style)
    return figure, left_out(f"values of {label(study.x or '')}", len(panel_of), len(study.levels))


def left_out(what: str, shown: int, of: int) -> str:
    """A sentence for the caption if there was no room for all."""
    return f" Shown are {shown} of {of} {what}, for room; the tables have all." if shown < of else ""
