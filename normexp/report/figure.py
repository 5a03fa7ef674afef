"""A figure of the page: a drawing, or the reason why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from normexp.report.svg import inline, told_by


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


def save_all(figures: Sequence[Drawing | Skipped], folder: Path, source: str) -> dict[str, Markup]:
    """Write the drawings. Returns name -> HTML for the page."""
    drawings = [item for item in figures if isinstance(item, Drawing)]
    return {
        drawing.name: inline(
            save(drawing, folder, source), drawing.name, drawing.title, told_by(drawing.figure)
        )
        for drawing in drawings
    }


def narrow_all(figures: Sequence[Drawing | Skipped]) -> dict[str, Markup]:
    """The same for figures drawn for a narrow screen, which only the page has."""
    found = {}
    for drawing in figures:
        if isinstance(drawing, Drawing):
            text = BytesIO()
            FigureCanvasSVG(drawing.figure).print_svg(text, metadata={"Date": None})
            name = f"narrow-{drawing.name}"
            found[drawing.name] = inline(text.getvalue(), name, drawing.title, told_by(drawing.figure))
    return found


def save(drawing: Drawing, folder: Path, source: str) -> bytes:
    """Write PNG, PDF and SVG, with their source in the metadata. Returns the SVG for the page.

    `savefig` would lay out and draw each figure twice per format, which takes most of a report's time. The files have
    no date, so equal runs give equal files.
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
