"""The final value against the factor of the study: the picture of the GroupNorm paper."""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from normexp.report.figure import Drawing, Skipped
from normexp.report.statistics import FEWEST_DRAWN, estimate
from normexp.report.study import Study, label
from normexp.report.style import WIDTH, Style, label_lines, new_figure


def final_values(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    yield by_level(study, style) if study.x else by_arm(study, style)


def by_level(study: Study, style: Style) -> Drawing:
    figure, (axes,) = new_figure(1, 1, panel=(WIDTH, 3.6))
    ends = {}
    for arm in study.arms:
        rows = study.chosen[study.chosen["arm"] == arm].groupby(study.x)[study.metric]
        found = {level: estimate(values) for level, values in rows}
        levels = [level for level, value in found.items() if value.n]
        means = np.array([found[level].mean for level in levels])
        drawn = [level for level in levels if found[level].n >= FEWEST_DRAWN]
        low, high = ([getattr(found[level], end) for level in drawn] for end in ("low", "high"))
        axes.plot(
            levels,
            means,
            marker=style.marker[arm],
            markeredgecolor="white",
            markeredgewidth=0.6,
            **style.line(arm),
        )
        axes.fill_between(drawn, low, high, color=style.colour[arm], alpha=0.15, linewidth=0)
        ends[arm] = means[-1] if len(means) else np.nan
    scale_of_levels(axes, study)
    scale_of_metric(axes, study)
    label_lines(axes, ends, style)
    title = f"{label(study.metric).capitalize()} against {label(study.x)}"
    return Drawing("final", title, f"Mean over seeds and its 95% interval. {note(study)}", figure)


def by_arm(study: Study, style: Style) -> Drawing:
    """One row an arm, the best on top: every seed as a dot, the mean with its interval."""
    found = {arm: study.chosen[study.chosen["arm"] == arm][study.metric] for arm in study.arms}
    estimates = {arm: estimate(values) for arm, values in found.items()}
    worst_first = sorted(
        (arm for arm in study.arms if estimates[arm].n),
        key=lambda arm: estimates[arm].mean * (1 if study.higher_is_better else -1),
    )
    figure, (axes,) = new_figure(1, 1, panel=(WIDTH, 0.8 + 0.21 * max(len(worst_first), 4)))
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
    axes.set_yticks(range(len(worst_first)), worst_first)
    for tick, arm in zip(axes.get_yticklabels(), worst_first, strict=True):
        tick.set(color=style.colour[arm], fontweight="bold")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label(study.metric))
    if study.metric.endswith("accuracy"):
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    title = f"{label(study.metric).capitalize()} of each arm"
    return Drawing("final", title, f"Every seed, the mean and its 95% interval. {note(study)}", figure)


def note(study: Study) -> str:
    """What a reader must know about the selection of runs."""
    parts = []
    diverged = int((study.chosen["status"] == "diverged").sum())
    if study.rate_varies:
        parts.append("Each point at its best learning rate by validation accuracy.")
    if diverged:
        parts.append(
            f"{diverged} diverged runs have no final value and are left out of the means; the table counts them."
        )
    return " ".join(parts)


def scale_of_levels(axes: Axes, study: Study) -> None:
    """Ticks at the levels themselves; logarithmic where they span more than a factor of 5."""
    levels = study.levels
    if levels[0] > 0 and levels[-1] / levels[0] > 5:
        axes.set_xscale("log", base=2 if study.x == "batch_size" else 10)
    axes.xaxis.set_major_locator(FixedLocator(levels))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(label(study.x))


def scale_of_metric(axes: Axes, study: Study) -> None:
    axes.set_ylabel(label(study.metric))
    if study.metric.endswith("accuracy"):
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
        axes.set_ylim(top=min(axes.get_ylim()[1], 1.0))
