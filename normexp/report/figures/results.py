"""What came out: the final value against the factor of the study, the picture of the GroupNorm paper; and where on the
learning rates each arm is best, where it fails, and whether it is better or only better suited."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from normexp.report.drawing import Drawing, Skipped, level_title, new_figure, room, tell
from normexp.report.figures.lines import (
    dodge,
    draw_intervals,
    draw_line,
    level_panels,
    plain_ticks,
    said,
    scale_of_levels,
    scale_of_metric,
)
from normexp.report.study import NO_LEVEL, Study, label
from normexp.report.style import FAINT, INK, Style, height_for, label_lines, percent, shorten
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


TITLE = "Which learning rates each arm bears"


def learning_rates(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Which runs failed at which learning rate, and the best rate over the study's axis."""
    rates = sorted(study.summaries["lr"].unique())
    if study.x != "lr" and not study.rate_varies:
        yield Skipped("learning_rates", TITLE, f"no arm was run with several learning rates ({rates[0]:g})")
        return
    if study.rate_varies:
        yield accuracy_over_rate(study, style, rates)
    beside = study.rate_varies and study.x is not None
    height = height_for(study.arms, 1.1 + max(1.2, 0.28 * len(study.arms)))
    columns = 2 if beside and room().columns > 2 else 1
    figure, axes = new_figure((1 + beside) // columns, columns, panel=(room().width / columns, height))
    draw_map(study, style, axes[-1], rates)
    caption = "Runs that failed, of all with that learning rate; a dot is none."
    if beside:
        draw_best(study, style, axes[0], rates)
        caption = f"First: the learning rate of best mean validation accuracy. Then: {caption[0].lower()}{caption[1:]}"
    yield Drawing("learning_rates", TITLE, caption, figure)


def accuracy_over_rate(study: Study, style: Style, rates: list[float]) -> Drawing:
    """Mean and interval of every arm at every learning rate, one panel per level. A cross marks failed runs."""

    def draw(axes: Axes, level: float) -> dict[str, float]:
        here = study.summaries[study.summaries[study.x] == level] if study.x else study.summaries
        panel = level_title(study, level)
        ends = {
            arm: over_rate(study, style, axes, here[here["arm"] == arm], arm, panel) for arm in study.arms
        }
        axes.set_xscale("log")
        axes.set_xlim(rates[0] / 1.5, rates[-1] * 1.5)
        plain_ticks(axes.xaxis, rates)
        axes.tick_params(axis="x", labelrotation=45 if len(rates) > 4 else 0)
        scale_of_metric(axes, study)
        return ends

    figure, _ = level_panels(study, style, "learning rate", label(study.metric), draw)
    caption = (
        f"Mean and 95% interval over seeds{over_examples(study)} at each learning rate, of the runs that did not fail. "
        "A cross under the axis: runs of that arm failed there."
    )
    return Drawing("over_rate", f"{label(study.metric).capitalize()} over learning rate", caption, figure)


def over_rate(study: Study, style: Style, axes: Axes, runs: pd.DataFrame, arm: str, panel: str) -> float:
    """One arm of a panel; returns where its line ends."""
    found = {float(rate): value for rate, own in runs.groupby("lr") if (value := study.values(own).mean()).n}
    lost = runs[runs["failed"]]["lr"].unique()
    if len(lost):
        (crosses,) = axes.plot(
            lost, [-0.02 - 0.025 * study.arms.index(arm)] * len(lost), "x", color=style.colour[arm], markersize=3.5,
            clip_on=False, transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        crosses.set_in_layout(False)
    draw_intervals(axes, style, arm, list(found), found.values())
    means = [value.mean for value in found.values()]
    words = [said(study, f"rate {rate:g}: ", value) for rate, value in found.items()]
    look = {"marker": style.marker[arm], "markersize": 3}
    return draw_line(axes, style, arm, list(found), means, f"{arm} {panel}", words, **look)


def draw_best(study: Study, style: Style, axes: Axes, rates: list[float]) -> None:
    """The best learning rate against the factor of the study, with equal ones side by side."""
    ends = {}
    axes.set_yscale("log")
    axes.set_ylim(rates[0] / 1.6, rates[-1] * 1.6)
    plain_ticks(axes.yaxis, rates)
    for place, arm in enumerate(study.arms):
        best = study.chosen[study.chosen["arm"] == arm].groupby(study.x)["lr"].first()
        # Moved aside and a little up or down, so that arms with equal rates do not hide each other.
        up = (len(study.arms) - 1) / 2 - place
        shift = (rates[-1] / rates[0]) ** (min(0.012, 0.15 / len(study.arms)) * up)
        xs = [dodge(level, arm, study) for level in best.index]
        axes.plot(xs, best * shift, marker=style.marker[arm], **style.line(arm))
        ends[arm] = best.iloc[-1] * shift
    scale_of_levels(axes, study)
    axes.set_ylabel("best learning rate")
    label_lines(axes, ends, style)


def draw_map(study: Study, style: Style, axes: Axes, rates: list[float]) -> None:
    """Runs that failed, by arm and learning rate."""
    failed = study.summaries["failed"].groupby([study.summaries["arm"], study.summaries["lr"]])
    share = failed.mean().unstack().reindex(index=study.arms[::-1], columns=rates)
    axes.imshow(share, aspect="auto", cmap="Reds", vmin=0, vmax=1.4, origin="lower")
    counts = failed.agg(["sum", "count"])
    for row, arm in enumerate(share.index):
        for column, rate in enumerate(rates):
            text, size, color = "no run", 6, FAINT
            if (arm, rate) in counts.index:
                bad, total = counts.loc[(arm, rate)]
                text, size, color = f"{bad}/{total}" if bad else "·", 7.5, INK
            axes.text(column, row, text, ha="center", va="center", fontsize=size, color=color)
    axes.set_xticks(np.arange(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(np.arange(len(share)), [shorten(arm) for arm in share.index])
    for tick, arm in zip(axes.get_yticklabels(), share.index, strict=True):
        tick.set(color=style.colour[arm], fontweight="bold")
    axes.grid(visible=False)
    axes.set_xlabel("learning rate")
    axes.set_title("failed runs")
