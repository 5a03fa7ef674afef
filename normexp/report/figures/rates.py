"""Learning rates: where each arm is best, where it fails, and whether it is better or only better suited."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from normexp.report.drawing import Drawing, Skipped, level_title, new_figure, room
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
from normexp.report.study import Study, label
from normexp.report.style import FAINT, INK, Style, height_for, label_lines, shorten
from normexp.report.tables import over_examples

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
