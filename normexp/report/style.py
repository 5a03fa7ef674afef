"""The style of figures: one color per norm in all figures, labels at the lines, sizes for print, and axes."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from normexp.report.statistics import Estimate
from normexp.report.study import Study, label
from normexp.runs.table import FEWEST_FOR_INTERVAL

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType  # not in matplotlib before 3.11

# Colors that people with every kind of color vision can tell apart (Okabe, Ito 2008; more: Tol 2021), dark enough for
# text on white. The usual norms have the same color in every report. Other norms take the colors that a study leaves.
OWN = {
    "none": "#555555", "batchnorm": "#0072B2", "layernorm": "#D55E00", "groupnorm": "#009E73",
    "instancenorm": "#B5568B", "rmsnorm": "#C58A00",
}  # fmt: skip
FREE = (  # those like the color of a usual norm come last
    "#A32020", "#5B6FB5", "#6A7A1F", "#332288", "#CC6677", "#882255", "#7A4A1E", "#44776A", "#117733", "#AA4499",
    "#2E8B9A", "#3A9BD9",
)  # fmt: skip
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, FAINT = "#222222", "#6b6b6b"
LINE = 8.6  # points from one label to the next
LONGEST = 42  # letters of a label, which leave room for what it names
SETTINGS: "dict[RcKeyType, object]" = {
    "font.family": "DejaVu Sans", "font.size": 8.5, "text.color": INK, "axes.labelcolor": INK, "axes.labelsize": 8.5,
    "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.edgecolor": "#999999",
    "axes.linewidth": 0.7, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e6e6e6", "grid.linewidth": 0.6, "axes.axisbelow": True, "xtick.color": FAINT, "ytick.color": FAINT,
    "xtick.labelsize": 7.5, "ytick.labelsize": 7.5, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "xtick.minor.size": 0, "ytick.minor.size": 0, "lines.linewidth": 1.6, "lines.markersize": 4.5,
    "figure.dpi": 200, "figure.constrained_layout.h_pad": 0.06, "pdf.fonttype": 42,
    "text.parse_math": False,  # a user's name may have a $
    "image.cmap": "cividis",
}  # fmt: skip


def drawing_style() -> contextlib.AbstractContextManager[None]:
    """The context in which the figures of a report are drawn."""
    return matplotlib.rc_context(SETTINGS)


class Style:
    """Color, dash and marker of each arm. The first arm of a norm has the norm's color, other arms with that norm have
    one of their own; what sets them apart decides dash and marker."""

    def __init__(self, arms: Sequence[str]):
        firsts = {arm.split(" · ")[0]: arm for arm in reversed(arms)}
        owner = {arm: norm for norm, arm in firsts.items() if norm in OWN}  # of a usual norm's color
        others = [arm for arm in arms if arm not in owner]
        free = [*FREE, *(color for norm, color in OWN.items() if norm not in firsts)]
        rests = list(dict.fromkeys(arm.partition(" · ")[2] for arm in arms))
        self.color: dict[str, str] = {}
        self.dash: dict[str, object] = {}
        self.marker: dict[str, str] = {}
        self.width: dict[str, float] = {}
        for index, arm in enumerate(arms):
            again, color = divmod(others.index(arm) if arm in others else 0, len(free))
            dash = rests.index(arm.partition(" · ")[2]) + again  # dashes tell arms of one color apart
            self.color[arm] = OWN[owner[arm]] if arm in owner else free[color]
            # The first line is the widest and lies below, so all curves show even if they coincide.
            self.width[arm] = 1.3 + min(0.6, 1.8 / len(arms)) * (len(arms) - 1 - index)
            self.dash[arm] = DASHES[dash % len(DASHES)]
            self.marker[arm] = MARKERS[(index if len(rests) == 1 else dash) % len(MARKERS)]

    def line(self, arm: str) -> dict[str, Any]:
        return {"color": self.color[arm], "linestyle": self.dash[arm], "linewidth": self.width[arm]}


def height_for(arms: Sequence[str], least: float) -> float:
    """Inches of a panel whose right edge has room for a label of each arm."""
    return max(least, 0.8 + LINE / 72 * len(arms))


def percent(axis: Axis) -> None:
    """Show fractions as percentages."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")


def plain_log_scale(axes: Axes) -> None:
    """Logarithmic y. Ticks are at powers of ten; if few are in view, also at 2 and 5 times them."""
    axes.set_yscale("log")
    axes.set_autoscaley_on(True)  # for panels that share this axis and are drawn later
    plain_log_ticks(axes.yaxis, *axes.get_ylim())


def plain_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks at 1, 2 and 5 of each decade, as plain numbers; for wide ranges only at 1."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1e3 * low else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:,g}")


def label_lines(axes: Axes, ends: Mapping[str, float], style: Style) -> None:
    """Write the names of the arms beside the right ends of their lines, moved apart so that they do not overlap.
    `ends`: arm -> y of its last point, in data coordinates."""
    to_axes = axes.transData + axes.transAxes.inverted()
    right = axes.get_xlim()[1]
    gap = LINE / (axes.get_window_extent().height / axes.figure.dpi * 72)
    finite = {arm: to_axes.transform((right, y))[1] for arm, y in ends.items() if y == y}
    heights = sorted((min(max(y, 0.0), 1.0), arm) for arm, y in finite.items())
    if not heights:
        return
    from scipy.optimize import isotonic_regression  # half a second

    steps = gap * np.arange(len(heights))
    # the nearest positions, by the sum of squares, that keep the gap
    positions = isotonic_regression([y for y, _ in heights] - steps).x
    positions = np.clip(positions, 0, max(0, 1 - steps[-1])) + steps
    for (_, arm), y in zip(heights, positions, strict=True):
        axes.annotate(
            shorten(arm), (1, y), xycoords="axes fraction", xytext=(5, 0), textcoords="offset points", va="center",
            fontsize=7.5, color=style.color[arm], fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def shorten(name: str) -> str:
    """A name that leaves room for what it names."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def draw_curves(
    axes: Axes, style: Style, curve: pd.DataFrame, x: str, *, band: bool = True, **look: Any
) -> dict[str, float]:
    """Each arm's mean over a column with its band, from what `statistics.curves` gives. Returns where lines end."""
    ends = {}
    for arm, rows in curve.groupby("arm", observed=True, sort=False):
        alone = {"marker": "o"} if len(rows) == 1 else {}  # a line would not show
        axes.plot(rows[x], rows["mean"], **{**style.line(arm), **alone, **look})
        if band:
            axes.fill_between(rows[x], rows["low"], rows["high"], **shade(style.color[arm]))
        ends[arm] = rows["mean"].iloc[-1]
    return ends


def shade(color: str) -> dict[str, Any]:
    """Matplotlib's options of the area around a line of this color."""
    return {"color": color, "alpha": 0.15, "linewidth": 0}


def draw_points(style: Style, axes: Axes, arm: str, points: Mapping[float, Estimate], **look: Any) -> float:
    """An arm's means over x, with intervals as bars where there are enough seeds. Returns where the line ends."""
    points = {x: value for x, value in points.items() if value.n}
    for x, value in points.items():
        if value.n >= FEWEST_FOR_INTERVAL:
            axes.plot([x, x], [value.low, value.high], color=style.color[arm], linewidth=0.9, zorder=1)
    means = [value.mean for value in points.values()]
    axes.plot(list(points), means, **{**style.line(arm), "marker": style.marker[arm], **look})
    return means[-1] if means else math.nan


def spread_of_levels(study: Study) -> bool:
    """Whether the levels span more than a factor of 5, so that a logarithmic axis shows them better."""
    return study.levels[0] > 0 and study.levels[-1] / study.levels[0] > 5


def dodge(level: float, arm: str, study: Study) -> float:
    """A level moved aside for an arm, so that none hides another: by a fiftieth of the axis, or less for many arms."""
    first, last = study.levels[0], study.levels[-1]
    share = min(0.018, 0.15 / len(study.arms)) * (study.arms.index(arm) - (len(study.arms) - 1) / 2)
    if spread_of_levels(study):
        return level * (last / first) ** share
    return level + (last - first) * share


def scale_of_levels(axes: Axes, study: Study) -> None:
    """Ticks at the levels. The axis is logarithmic if they span much."""
    if spread_of_levels(study):
        axes.set_xscale("log", base=2 if study.x == "batch_size" else 10)
    plain_ticks(axes.xaxis, study.levels)
    axes.set_xlabel(label(study.x))


def plain_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Ticks at these values, as plain numbers."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def scale_of_metric(axes: Axes, study: Study) -> None:
    """An accuracy in percent, within its bounds."""
    if study.of_shares:
        percent(axes.yaxis)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0.0), min(high, 1.0))
