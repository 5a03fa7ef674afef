"""A figure of the page: a drawing for wide and narrow screens, or the reason why there is none; inside the page it has
colors for light and dark mode, values at the points and names for screen readers."""

import colorsys
import contextlib
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
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
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from normexp.report.study import Study, spread_over

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)
COLOR = re.compile(r"#([0-9a-f]{6})\b")
# Light gray on white becomes dark gray on black. Other colors get lighter.
DARK = {
    "ffffff": "#16181b", "222222": "#e6e6e6", "6b6b6b": "#a5a5a5", "999999": "#6f6f6f", "e6e6e6": "#31353a",
    "eeeeee": "#2a2d31", "dddddd": "#3a3e43", "000000": "#e6e6e6",
}  # fmt: skip


def tell(axes: Axes, xs: Sequence[float], ys: Sequence[float], name: str, points: Sequence[str]) -> None:
    """Give a curve its values. The page shows them under the mouse, and screen readers read the focused one aloud.

    Invisible marks stand at the points. Other formats of the figure do not change.
    """
    # id of the marks -> name of the curve, its points
    curves = vars(axes.get_figure(root=True)).setdefault("told", {})
    key = f"told{len(curves)}"
    curves[key] = (name, list(points))
    axes.plot(
        xs, ys, "o", markersize=9, alpha=0, color="#222222", gid=key, scalex=False, scaley=False, zorder=9
    )


def draw_line(
    axes: Axes, xs: Iterable[float], ys: Iterable[float], name: str, words: Iterable[str], **look: Any
) -> float:
    """A line, or marks, with its values for the page. Returns where it ends; NaN for a line without points."""
    xs, ys = list(xs), list(ys)
    axes.plot(xs, ys, **look)
    tell(axes, xs, ys, name.strip(), list(words))
    return ys[-1] if ys else math.nan


def inline(svg: bytes, drawing: "Drawing", prefix: str = "") -> Markup:
    """The SVG of a drawing as an element of a page. Its name makes ids differ from those of other figures."""
    root = ET.fromstring(svg)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for attribute in ("width", "height"):
        root.attrib.pop(attribute, None)
    # A figure of one panel is drawn for half a page, so that its text has the size of all others.
    width = f"max-width: {min(100, 100 * drawing.figure.get_figwidth() / room().width):.4g}%"
    root.attrib |= {"role": "group", "aria-label": drawing.title, "style": width}
    for image in root.iter(f"{{{SVG}}}image"):  # its id depends only on the content, and images may be equal
        image.attrib.pop("id", None)
    curves = vars(drawing.figure).get("told", {})
    for group in root.iter(f"{{{SVG}}}g"):
        if group.get("id") in curves:
            _name(group, *curves[group.get("id")])
    text = re.sub(r"\n\s*", "\n", ET.tostring(root, encoding="unicode"))
    text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}{drawing.name}-", text)
    colored = re.sub(
        r'(?:style|fill|stroke)="[^"]*"', lambda match: COLOR.sub(r"var(--c-\1, #\1)", match[0]), text
    )
    return Markup(colored)


def _name(group: ET.Element, name: str, points: list[str]) -> None:
    label = f"{name}: {'; '.join(points)}"
    group.attrib |= {"class": "curve", "tabindex": "0", "role": "img", "aria-label": label}
    marks = list(group.iter(f"{{{SVG}}}use"))
    if len(marks) == len(points):  # points outside the axes are not drawn
        for mark, words in zip(marks, points, strict=True):
            ET.SubElement(mark, f"{{{SVG}}}title").text = f"{name}, {words}"
    else:
        title = ET.Element(f"{{{SVG}}}title")
        title.text = name
        group.insert(0, title)


def dark_colors(colors: Iterable[str]) -> dict[str, str]:
    """Name of the variable -> color on a dark page, for all colors of figures, bright enough for text."""
    variables = {f"--c-{key}": value for key, value in DARK.items()}
    for color in sorted({color.lower().lstrip("#") for color in colors} - DARK.keys()):
        hue, light, saturation = colorsys.rgb_to_hls(*to_rgb(f"#{color}"))
        channels = colorsys.hls_to_rgb(hue, max(light, 0.62), min(saturation, 0.75))
        variables[f"--c-{color}"] = to_hex(channels)
    return variables


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
    drawn = [drawing for drawing in figures if isinstance(drawing, Drawing)]
    return {drawing.name: inline(save(drawing, folder, source), drawing) for drawing in drawn}


def narrow_all(figures: Sequence[Drawing | Skipped]) -> dict[str, Markup]:
    """The same for figures drawn for a narrow screen, which only the page has."""
    elements = {}
    for drawing in figures:
        if isinstance(drawing, Drawing):
            text = BytesIO()
            FigureCanvasSVG(drawing.figure).print_svg(text, metadata={"Date": None})
            elements[drawing.name] = inline(text.getvalue(), drawing, "narrow-")
    return elements


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
    keys: Sequence[Any], xlabel: str, ylabel: str, *, height: float = 2.5, names: Sequence[str] = (), **options: Any
) -> tuple[Figure, dict[Any, Axes]]:  # fmt: skip
    """key -> its panel, in even rows of at most four. The outer panels have the labels.

    Args:
        names: those that will stand beside the lines. On a narrow screen long ones take a row for each panel.
    """
    here = room()
    columns = -(-len(keys) // -(-len(keys) // here.columns))  # even rows: five panels stand as three and two
    if here is NARROW and max(map(len, names), default=0) * CHARACTER > here.width * 72 / 4:
        columns = 1
    width = here.width / (columns if here is NARROW else max(columns, 2))
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
