"""Figures of small panels: one per level of the study's factor, or one per arm."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normexp.report.room import NARROW, room
from normexp.report.study import Study, label
from normexp.report.style import CHARACTER, new_figure

MOST = 8


def some(values: Sequence[float], most: int) -> list[float]:
    """At most `most` of the values, evenly spread, with the first and the last."""
    values = list(values)
    if len(values) <= most:
        return values
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def panels(
    keys: Sequence[Any],
    xlabel: str,
    ylabel: str,
    *,
    height: float = 2.5,
    names: Sequence[str] = (),
    **options: Any,
) -> tuple[Figure, dict[Any, Axes]]:
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
    """The levels that get a panel; [0] for a study without an axis."""
    return some(study.levels, MOST) or [0]


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
