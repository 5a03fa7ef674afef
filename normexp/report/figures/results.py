"""What came out: the final value against the factor of the study, and which learning rates each arm bears; how it was
learned: validation curves by epoch, step, sample and second."""

import re
from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import WIDTH, Drawing, Skipped, level_panels, new_figure
from normexp.report.statistics import curves, of_all_runs
from normexp.report.study import Study, label
from normexp.report.style import (
    Style,
    dodge,
    draw_curves,
    draw_points,
    height_for,
    label_lines,
    percent,
    plain_ticks,
    scale_of_levels,
    scale_of_metric,
    shorten,
)
from normexp.report.tables import over_examples
from normexp.runs.table import FEWEST_FOR_INTERVAL


def over_seeds(study: Study, more: str = "") -> str:
    """What a caption says of means: with their intervals, if one is drawn."""
    most = max((values.mean().n for values in study.points.values()), default=0)
    if most < FEWEST_FOR_INTERVAL:
        return "Mean over seeds; intervals are drawn from three seeds on"
    return f"Mean over seeds and its 95% interval{more}, drawn from three seeds on"


def final_values(study: Study, style: Style) -> list[Drawing]:
    """The final metric of every arm, over the study's axis if it has one."""
    return [by_level(study, style) if study.x else by_arm(study, style)]


def by_level(study: Study, style: Style) -> Drawing:
    """Mean and interval of each arm at each level of the study's axis."""
    figure, (axes,) = new_figure(1, panel=(0.72 * WIDTH, height_for(study.arms, 3.4)))
    ends = {}
    for arm in study.arms:
        points = {dodge(level, arm, study): study.points[arm, level].mean() for level in study.levels}
        ends[arm] = draw_points(style, axes, arm, points, markeredgecolor="white")
    scale_of_levels(axes, study)
    axes.set_ylabel(label(study.metric))
    scale_of_metric(axes, study)
    label_lines(axes, ends, style)
    title = f"{label(study.metric).capitalize()} against {label(study.x)}"
    caption = f"{over_seeds(study, over_examples(study))}. {note(study)}"
    return Drawing("final", title, caption, figure)


def by_arm(study: Study, style: Style) -> Drawing:
    """One row per arm, the best on top: every seed as a dot, the mean with its interval."""
    estimates = {arm: value for arm in study.arms if (value := study.points[arm, 0].mean()).n}
    worst_first = sorted(estimates, key=lambda arm: estimates[arm].mean, reverse=not study.higher_is_better)
    figure, (axes,) = new_figure(1, panel=(WIDTH / 2, 0.8 + 0.21 * max(len(worst_first), 4)))
    for row, arm in enumerate(worst_first):
        color, value = style.color[arm], estimates[arm]
        dots = {"marker": "o", "linestyle": "", "alpha": 0.5, "markersize": 5, "markeredgewidth": 0}
        values = study.points[arm, 0].values
        axes.plot(values, [row] * len(values), color=color, **dots)
        axes.plot([value.low, value.high], [row, row], color=color, linewidth=1.4)
        axes.plot(value.mean, row, "|", color=color, markersize=9, markeredgewidth=2)
    axes.set_yticks(range(len(worst_first)), [shorten(arm) for arm in worst_first])
    axes.set_ylim(-0.6, len(worst_first) - 0.4)
    for tick, arm in zip(axes.get_yticklabels(), worst_first, strict=True):
        tick.set(color=style.color[arm], fontweight="bold")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label(study.metric))
    if study.of_shares:
        percent(axes.xaxis)
    title = f"{label(study.metric).capitalize()} of each arm"
    drawn = any(value.low == value.low for value in estimates.values())
    more = f", with its 95% interval over seeds{over_examples(study)}" if drawn else ""
    caption = f"Every seed and the mean{more}. {note(study)}"
    return Drawing("final", title, caption, figure)


def note(study: Study) -> str:
    """A note on the selection of runs."""
    rate = "Each point at its best learning rate by validation accuracy." if study.rate_varies else ""
    count = int(study.chosen["failed"].sum())
    failed = f"Failed runs ({count}) are left out of the means; the table counts them." if count else ""
    return f"{rate} {failed}".strip()


def learning_rates(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Accuracy over the learning rate with the rates at which runs failed."""
    rates = sorted(study.summaries["lr"].unique())
    if study.rate_varies:
        yield accuracy_over_rate(study, style, rates)
    elif study.x != "lr":
        yield Skipped("Over the learning rate", f"no arm was run with several learning rates ({rates[0]:g})")


def accuracy_over_rate(study: Study, style: Style, rates: list[float]) -> Drawing:
    """Mean and interval of every arm at every learning rate, one panel per level. A cross marks failed runs."""

    def draw(axes: Axes, level: float) -> dict[str, float]:
        here = study.summaries[study.summaries["level"] == level]
        ends = {arm: over_rate(study, style, axes, here[here["arm"] == arm], arm) for arm in study.arms}
        axes.set_xscale("log")
        axes.set_xlim(rates[0] / 1.5, rates[-1] * 1.5)
        plain_ticks(axes.xaxis, rates)
        axes.tick_params(axis="x", labelrotation=45 if len(rates) > 4 else 0)
        scale_of_metric(axes, study)
        return ends

    figure, _ = level_panels(study, style, "learning rate", label(study.metric), draw)
    caption = (
        f"{over_seeds(study, over_examples(study))}, at each learning rate, of the runs that did not fail. "
        "A cross under the axis: runs of that arm failed there."
    )
    return Drawing("over_rate", f"{label(study.metric).capitalize()} over learning rate", caption, figure)


def over_rate(study: Study, style: Style, axes: Axes, runs: pd.DataFrame, arm: str) -> float:
    """One arm of a panel; returns where its line ends."""
    points = {float(rate): study.values(rate_runs).mean() for rate, rate_runs in runs.groupby("lr")}
    failed = runs[runs["failed"]]["lr"].unique()
    if len(failed):
        axes.plot(
            failed, [-0.02 - 0.025 * study.arms.index(arm)] * len(failed), "x", color=style.color[arm], markersize=3.5,
            clip_on=False, in_layout=False, transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    return draw_points(style, axes, arm, points, markersize=3)


CLOCKS = {
    "epoch": ("epoch", "Equal data for every arm."),
    "step": ("optimizer step", "Equal numbers of updates; a larger batch sees more data in them."),
    "samples": ("training samples seen", "Equal numbers of samples for every arm."),
    "seconds": ("seconds of training", "Time of training, under whatever load there was; a mean over seeds."),
}


def learning_curves(study: Study, style: Style) -> list[Drawing] | list[Skipped]:
    """The study's metric over training, with a tab for each clock; of one of the end, validation accuracy."""
    along = study.metric in study.metrics["metric"].cat.categories and not study.metric.startswith("test/")
    name = study.metric if along else "val/accuracy"
    recorded = study.recorded(re.escape(name))
    # A failed run's curve may end, and a mean that loses a run on the way would jump.
    recorded = recorded[~recorded["failed"]]
    if recorded.empty:
        title = f"{label(name).capitalize()} over training"
        return [Skipped(title, f"no run that learned recorded {name}")]
    # Runs of one arm and level are validated at the same steps, until one stops early. Only their seconds differ.
    curve = of_all_runs(curves(recorded, ["arm", "level"], "step"), ["arm", "level"])
    clocks = recorded.groupby(["arm", "level", "step"], observed=True)[["epoch", "samples", "seconds"]].mean()
    curve = curve.merge(clocks.reset_index(), on=["arm", "level", "step"])
    first = "step" if study.summaries["max_steps"].notna().any() else "epoch"
    ordered = sorted(CLOCKS, key=lambda clock: clock != first)
    return [over_clock(study, style, curve, clock, label(name)) for clock in ordered]


def over_clock(study: Study, style: Style, curve: pd.DataFrame, clock: str, ylabel: str) -> Drawing:
    """The curves over one clock, one panel per level."""
    xlabel, meaning = CLOCKS[clock]

    def draw(axes: Axes, level: float) -> dict[str, float]:
        ends = draw_curves(axes, style, curve[curve["level"] == level], clock)
        if ylabel.endswith("accuracy") and curve["mean"].max() <= 1:
            percent(axes.yaxis)
            axes.set_ylim(max(0.0, curve["mean"].min() - 0.05), 1.0)  # the panels share this axis
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=clock != "seconds"))
        return ends

    figure, more = level_panels(study, style, xlabel, ylabel, draw, sharex=clock == "epoch")
    caption = f"{over_seeds(study)}. {meaning} {note(study)}{more}"
    return Drawing(f"learning_{clock}", f"{ylabel.capitalize()} by {xlabel}", caption, figure, tab=clock)
