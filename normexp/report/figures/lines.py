"""What figures share: a line per arm with intervals and values, one panel per level, and the axis of levels."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from normexp.format import pluralize
from normexp.report.drawing import level_title, levels_shown, panels, tell
from normexp.report.statistics import FEWEST_DRAWN, Estimate
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, percent
from normexp.report.tables import interval_text, number


def level_panels(
    study: Study, style: Style, xlabel: str, ylabel: str, draw: Callable[[Axes, float], dict[str, float]],
    **options: Any,
) -> tuple[Figure, int]:  # fmt: skip
    """One panel per level, with the arms' names beside the last. Returns the figure and how many levels it shows.

    Args:
        draw: draws a panel; returns where the line of each arm ends.
    """
    height = height_for(study.arms, 2.5)
    figure, shown = panels(
        levels_shown(study), xlabel, ylabel, height=height, names=study.arms, sharey=True, **options
    )
    for level, axes in shown.items():
        ends = draw(axes, level)
        axes.set_title(level_title(study, level))
        if axes is list(shown.values())[-1] or len(shown) <= 2:
            label_lines(axes, ends, style)
    return figure, len(shown)


def draw_line(
    axes: Axes, style: Style, arm: str, xs: Sequence[float], ys: Sequence[float], name: str, words: Iterable[str],
    **look: Any,
) -> float:  # fmt: skip
    """An arm's line, with its values for the page. Returns where it ends; NaN for a line without points."""
    xs, ys = list(xs), list(ys)
    axes.plot(xs, ys, **{**style.line(arm), **look})
    tell(axes, xs, ys, name.strip(), list(words))
    return ys[-1] if ys else float("nan")


def draw_intervals(
    axes: Axes, style: Style, arm: str, xs: Sequence[float], found: Iterable[Estimate]
) -> None:
    """The intervals of an arm's points as bars, of those with enough seeds."""
    for x, value in zip(xs, found, strict=True):
        if value.n >= FEWEST_DRAWN:
            axes.plot([x, x], [value.low, value.high], color=style.colour[arm], linewidth=0.9, zorder=1)


def said(study: Study, place: str, value: Estimate) -> str:
    """A point in words: `batch size 2: 78.2% ± 3.2, 5 seeds`."""
    unit = "%" if study.metric.endswith("accuracy") else ""
    interval = interval_text(*value[:3], study.metric)
    return (
        f"{place}{number(value.mean, study.metric)}{unit} {interval}".rstrip()
        + f", {pluralize(value.n, 'seed')}"
    )


def spread_of_levels(study: Study) -> bool:
    """Whether the levels span more than a factor of 5, so that a logarithmic axis shows them better."""
    return study.levels[0] > 0 and study.levels[-1] / study.levels[0] > 5


def dodge(level: float, arm: str, study: Study) -> float:
    """A level moved aside for an arm, so that equal arms do not hide each other. A place is a fiftieth of the axis, or
    less if there are many arms."""
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


def plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """Ticks at these values, as plain numbers."""
    axis.set_major_locator(FixedLocator(values))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def scale_of_metric(axes: Axes, study: Study) -> None:
    """An accuracy in percent, within its bounds."""
    if study.metric.endswith("accuracy"):
        percent(axes.yaxis)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0.0), min(high, 1.0))
