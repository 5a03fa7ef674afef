"""Accuracy over the learning rate: is an arm better, or does the chosen rate only suit it better?"""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from normexp.report.figure import Drawing
from normexp.report.figures.final import said
from normexp.report.panels import level_title, levels_shown, panels
from normexp.report.seed_statistics import FEWEST_DRAWN, estimate
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, percent
from normexp.report.svg import tell


def accuracy_over_rate(study: Study, style: Style, rates: list[float]) -> Drawing:
    """Mean and interval of every arm at every learning rate, one panel per level. A cross marks diverged runs."""
    height = height_for(study.arms, 2.5)
    figure, shown = panels(
        levels_shown(study),
        "learning rate",
        label(study.metric),
        height=height,
        names=study.arms,
        sharey=True,
    )
    for level, axes in shown.items():
        here = study.summaries[study.summaries[study.x] == level] if study.x else study.summaries
        ends = {
            arm: draw_arm(study, style, axes, here[here["arm"] == arm], arm, level_title(study, level))
            for arm in study.arms
        }
        axes.set_xscale("log")
        axes.set_xlim(rates[0] / 1.5, rates[-1] * 1.5)
        axes.xaxis.set_major_locator(FixedLocator(rates))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.tick_params(axis="x", labelrotation=45 if len(rates) > 4 else 0)
        axes.set_title(level_title(study, level))
        if study.metric.endswith("accuracy"):
            percent(axes.yaxis)
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, 0.0), min(high, 1.0))
        if axes is list(shown.values())[-1] or len(shown) <= 2:
            label_lines(axes, ends, style)
    caption = (
        "Mean over seeds and its 95% interval at each learning rate, of the runs that completed. A cross under the "
        "axis: runs of that arm diverged there."
    )
    return Drawing("over_rate", f"{label(study.metric).capitalize()} over learning rate", caption, figure)


def draw_arm(study: Study, style: Style, axes: Axes, runs: pd.DataFrame, arm: str, panel: str) -> float:
    """One arm of a panel; returns where its line ends."""
    done = runs[runs["status"] == "completed"]
    found = {rate: estimate(own[study.metric]) for rate, own in done.groupby("lr")}
    means = [value.mean for value in found.values()]
    axes.plot(list(found), means, marker=style.marker[arm], markersize=3, **style.line(arm))
    for rate, value in found.items():
        if value.n >= FEWEST_DRAWN:
            axes.plot([rate, rate], [value.low, value.high], color=style.colour[arm], linewidth=0.9, zorder=1)
    lost = runs[runs["status"] == "diverged"]["lr"].unique()
    place = -0.02 - 0.025 * study.arms.index(arm)
    if len(lost):
        (crosses,) = axes.plot(
            lost, [place] * len(lost), "x", color=style.colour[arm], markersize=3.5, clip_on=False,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        crosses.set_in_layout(False)
    words = [f"rate {rate:g}: {said(study, None, value)}" for rate, value in found.items()]
    tell(axes, list(found), means, f"{arm} {panel}".strip(), words)
    return means[-1] if means else math.nan
