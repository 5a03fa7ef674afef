"""A figure as plain numbers, panels of lines and maps, and its drawing in the style of the report."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import new_figure
from normexp.report.style import INK, Style, label_lines, plain_log_scale, plain_ticks, shade
from normexp.runs.files import finite_json

Numbers = Sequence[float]
HEIGHTS = {1: 3.6, 2: 3.4}  # inches, by the number of panels in a row


@dataclass(frozen=True)
class Line:
    """Points (x, y) of one name, which also chooses the color; `low` and `high` are the edges of a band.

    `law` is a closed form, drawn black and dashed; `dots` a cloud.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    look: Literal["line", "points", "law", "dots"] = "line"


@dataclass(frozen=True)
class Map:
    """A heat map: z[row][column] at y[row] and x[column]. `label` says what the colors mean."""

    x: Numbers
    y: Numbers
    z: Sequence[Numbers]
    label: str


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `log` names the logarithmic ones, of x and y."""

    title: str
    xlabel: str
    ylabel: str
    lines: Sequence[Line] = ()
    map: Map | None = None
    log: Literal["", "x", "y", "xy"] = ""
    named: bool = True  # whether the names stand beside the lines


@dataclass(frozen=True)
class Plot:
    """All numbers of a figure, and one sentence about them."""

    panels: Sequence[Panel]
    seen: str
    columns: int = 0  # panels side by side; 0: all

    def numbers(self) -> dict[str, Any]:
        """The numbers as JSON has them: None for what is not finite."""
        return finite_json({"seen": self.seen, "panels": [asdict(panel) for panel in self.panels]})


def draw(plot: Plot) -> Figure:
    """The figure, inside `drawing_style()`. It is small for its letters, so that they can be read on a projector."""
    columns = plot.columns or len(plot.panels)
    width = max(3.4, 6.4 / columns) if columns < 4 else 2.6
    height = HEIGHTS.get(columns, 3.9) if columns >= len(plot.panels) else 2.4
    figure, axes = new_figure(len(plot.panels), columns, panel=(width, height))
    names = [line.name for panel in plot.panels for line in panel.lines if line.look != "law"]
    style = Style(list(dict.fromkeys(names)))
    for panel, axis in zip(plot.panels, axes, strict=True):
        axis.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        if heat := panel.map:
            image = axis.pcolormesh(heat.x, heat.y, heat.z, shading="nearest", rasterized=True)
            figure.colorbar(image, ax=axis, pad=0.02).set_label(heat.label)
            axis.grid(visible=False)
        else:
            _draw_lines(axis, panel, style)
    return figure


def _draw_lines(axes: Axes, panel: Panel, style: Style) -> None:
    ends: dict[str, float] = {}
    for line in panel.lines:
        color = style.color.setdefault(line.name, INK)
        look: dict[str, Any] = {}
        if line.look == "law":
            look = {"color": INK, "linestyle": (0, (4, 2)), "linewidth": 1}
        elif line.look == "dots":
            look = {"color": color, "linestyle": "", "marker": ".", "markersize": 2, "alpha": 0.35}
        else:
            marker = style.marker[line.name] if line.look == "points" else ""
            look = {**style.line(line.name), "linewidth": min(style.width[line.name], 1.8), "marker": marker}
        axes.plot(line.x, line.y, **look)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, **shade(color))
        finite = [y for y in line.y if math.isfinite(y)]
        ends[line.name] = finite[-1] if finite else math.nan
    if "x" in panel.log:
        axes.set_xscale("log")
        plain_ticks(axes.xaxis, sorted({x for line in panel.lines for x in line.x}))
    elif all(isinstance(x, int) for line in panel.lines for x in line.x):
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if "y" in panel.log:
        plain_log_scale(axes)
    if panel.named and panel.lines:
        label_lines(axes, ends, style)
