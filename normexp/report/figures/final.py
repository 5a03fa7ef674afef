"""The final value against the factor of the study: the picture of the GroupNorm paper."""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from normexp.counted import counted
from normexp.report.figure import Drawing, Skipped
from normexp.report.room import room
from normexp.report.seed_statistics import FEWEST_DRAWN, Estimate, estimate
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, new_figure, percent, shorten
from normexp.report.svg import tell
from normexp.report.tables import number


def final_values(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """The final metric of every arm, over the study's axis if it has one."""
    yield by_level(study, style) if study.x else by_arm(study, style)


def by_level(study: Study, style: Style) -> Drawing:
    """Mean and interval of each arm at each level of the study's axis."""
    figure, (axes,) = new_figure(1, 1, panel=(room().width, height_for(study.arms, 3.6)))
    ends = {}
    for place, arm in enumerate(study.arms):
        rows = study.chosen[study.chosen["arm"] == arm].groupby(study.x)[study.metric]
        found = {level: value for level, values in rows if (value := estimate(values)).n}
        means = [value.mean for value in found.values()]
        # Side by side, so that the intervals of equal arms do not hide each other.
        xs = [dodge(level, place - (len(study.arms) - 1) / 2, study) for level in found]
        axes.plot(xs, means, marker=style.marker[arm], markeredgecolor="white", **style.line(arm))
        ends[arm] = means[-1] if means else np.nan
        tell(axes, xs, means, arm, [said(study, level, value) for level, value in found.items()])
        for x, value in zip(xs, found.values(), strict=True):
            if value.n >= FEWEST_DRAWN:
                axes.plot([x, x], [value.low, value.high], color=style.colour[arm], linewidth=0.9, zorder=1)
    scale_of_levels(axes, study)
    scale_of_metric(axes, study)
    label_lines(axes, ends, style)
    title = f"{label(study.metric).capitalize()} against {label(study.x)}"
    return Drawing("final", title, f"Mean over seeds and its 95% interval. {note(study)}", figure)


def by_arm(study: Study, style: Style) -> Drawing:
    """One row per arm, the best on top: every seed as a dot, the mean with its interval."""
    found = {arm: study.chosen[study.chosen["arm"] == arm][study.metric] for arm in study.arms}
    estimates = {arm: estimate(values) for arm, values in found.items()}
    worst_first = sorted(
        (arm for arm in study.arms if estimates[arm].n),
        key=lambda arm: estimates[arm].mean * (1 if study.higher_is_better else -1),
    )
    figure, (axes,) = new_figure(1, 1, panel=(room().width, 0.8 + 0.21 * max(len(worst_first), 4)))
    for row, arm in enumerate(worst_first):
        colour, value = style.colour[arm], estimates[arm]
        axes.plot(
            found[arm],
            [row] * len(found[arm]),
            "o",
            color=colour,
            alpha=0.35,
            markersize=3.5,
            markeredgewidth=0,
        )
        axes.plot([value.low, value.high], [row, row], color=colour, linewidth=1.4)
        axes.plot(value.mean, row, "|", color=colour, markersize=9, markeredgewidth=2)
        tell(axes, [value.mean], [row], arm, [said(study, None, value)])
    axes.set_yticks(range(len(worst_first)), [shorten(arm) for arm in worst_first])
    for tick, arm in zip(axes.get_yticklabels(), worst_first, strict=True):
        tick.set(color=style.colour[arm], fontweight="bold")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label(study.metric))
    if study.metric.endswith("accuracy"):
        percent(axes.xaxis)
    title = f"{label(study.metric).capitalize()} of each arm"
    return Drawing("final", title, f"Every seed, the mean and its 95% interval. {note(study)}", figure)


def said(study: Study, level: float | None, value: Estimate) -> str:
    """A point in words: `batch size 2: 78.2% ± 3.2, 5 seeds`."""
    place = f"{label(study.x)} {level:g}: " if level is not None else ""
    unit = "%" if study.metric.endswith("accuracy") else ""
    half = f" ± {number(value.high - value.mean, study.metric)}" if value.high == value.high else ""
    return f"{place}{number(value.mean, study.metric)}{unit}{half}, {counted(value.n, 'seed')}"


def note(study: Study) -> str:
    """A note on the selection of runs."""
    parts = []
    diverged = int((study.chosen["status"] == "diverged").sum())
    if study.rate_varies:
        parts.append("Each point at its best learning rate by validation accuracy.")
    if diverged:
        parts.append(
            f"Diverged runs ({diverged}) have no final value and are left out of the means; the table counts them."
        )
    return " ".join(parts)


def spread_of_levels(study: Study) -> bool:
    """Whether the levels span more than a factor of 5, so that a logarithmic axis shows them better."""
    return study.levels[0] > 0 and study.levels[-1] / study.levels[0] > 5


def dodge(level: float, places: float, study: Study) -> float:
    """A level moved aside by so many places. A place is a fiftieth of the axis, or less if there are many arms."""
    first, last = study.levels[0], study.levels[-1]
    share = min(0.018, 0.15 / len(study.arms)) * places
    if spread_of_levels(study):
        return level * (last / first) ** share
    return level + (last - first) * share


def scale_of_levels(axes: Axes, study: Study) -> None:
    """Ticks at the levels. The axis is logarithmic if they span much."""
    if spread_of_levels(study):
        axes.set_xscale("log", base=2 if study.x == "batch_size" else 10)
    axes.xaxis.set_major_locator(FixedLocator(study.levels))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(label(study.x))


def scale_of_metric(axes: Axes, study: Study) -> None:
    """Label and limits of the axis that shows the metric."""
    axes.set_ylabel(label(study.metric))
    if study.metric.endswith("accuracy"):
        percent(axes.yaxis)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, 0.0), min(high, 1.0))
