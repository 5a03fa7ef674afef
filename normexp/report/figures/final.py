"""The final value against the factor of the study: the picture of the GroupNorm paper."""

from collections.abc import Iterator

from normexp.report.drawing import Drawing, Skipped, new_figure, room
from normexp.report.figures.lines import (
    dodge,
    draw_intervals,
    draw_line,
    said,
    scale_of_levels,
    scale_of_metric,
)
from normexp.report.study import NO_LEVEL, Study, label
from normexp.report.style import Style, height_for, label_lines, percent, shorten
from normexp.report.svg import tell
from normexp.report.tables import over_examples


def final_values(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """The final metric of every arm, over the study's axis if it has one."""
    yield by_level(study, style) if study.x else by_arm(study, style)


def by_level(study: Study, style: Style) -> Drawing:
    """Mean and interval of each arm at each level of the study's axis."""
    figure, (axes,) = new_figure(1, 1, panel=(room().width, height_for(study.arms, 3.6)))
    ends = {}
    for arm in study.arms:
        found = {level: value for level in study.levels if (value := study.points[arm, level].mean()).n}
        xs = [dodge(level, arm, study) for level in found]
        means = [value.mean for value in found.values()]
        words = [said(study, f"{label(study.x)} {level:g}: ", value) for level, value in found.items()]
        look = {"marker": style.marker[arm], "markeredgecolor": "white"}
        ends[arm] = draw_line(axes, style, arm, xs, means, arm, words, **look)
        draw_intervals(axes, style, arm, xs, found.values())
    scale_of_levels(axes, study)
    axes.set_ylabel(label(study.metric))
    scale_of_metric(axes, study)
    label_lines(axes, ends, style)
    title = f"{label(study.metric).capitalize()} against {label(study.x)}"
    caption = (
        f"Mean and 95% interval over seeds{over_examples(study)}, drawn from three seeds on. {note(study)}"
    )
    return Drawing("final", title, caption, figure)


def by_arm(study: Study, style: Style) -> Drawing:
    """One row per arm, the best on top: every seed as a dot, the mean with its interval."""
    found = {arm: study.points[arm, NO_LEVEL].values for arm in study.arms}
    estimates = {arm: value for arm in study.arms if (value := study.points[arm, NO_LEVEL].mean()).n}
    sign = 1 if study.higher_is_better else -1
    worst_first = sorted(estimates, key=lambda arm: estimates[arm].mean * sign)
    figure, (axes,) = new_figure(1, 1, panel=(room().width, 0.8 + 0.21 * max(len(worst_first), 4)))
    for row, arm in enumerate(worst_first):
        colour, value = style.colour[arm], estimates[arm]
        dots = {"marker": "o", "linestyle": "", "alpha": 0.35, "markersize": 3.5, "markeredgewidth": 0}
        axes.plot(found[arm], [row] * len(found[arm]), color=colour, **dots)
        axes.plot([value.low, value.high], [row, row], color=colour, linewidth=1.4)
        axes.plot(value.mean, row, "|", color=colour, markersize=9, markeredgewidth=2)
        tell(axes, [value.mean], [row], arm, [said(study, "", value)])
    axes.set_yticks(range(len(worst_first)), [shorten(arm) for arm in worst_first])
    for tick, arm in zip(axes.get_yticklabels(), worst_first, strict=True):
        tick.set(color=style.colour[arm], fontweight="bold")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label(study.metric))
    if study.metric.endswith("accuracy"):
        percent(axes.xaxis)
    title = f"{label(study.metric).capitalize()} of each arm"
    caption = f"Every seed, the mean and its 95% interval over seeds{over_examples(study)}. {note(study)}"
    return Drawing("final", title, caption, figure)


def note(study: Study) -> str:
    """A note on the selection of runs."""
    parts = []
    lost = int(study.chosen["failed"].sum())
    if study.rate_varies:
        parts.append("Each point at its best learning rate by validation accuracy.")
    if lost:
        parts.append(f"Failed runs ({lost}) are left out of the means; the table counts them.")
    return " ".join(parts)
