"""How it was learned: validation curves by epoch, step, sample and second; how soon each arm reaches an accuracy."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import Drawing, Skipped, left_out, level_title, new_figure, room
from normexp.report.figures.lines import draw_line, level_panels, scale_of_levels
from normexp.report.figures.results import note
from normexp.report.statistics import FEWEST_DRAWN, curves, estimate
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, percent, plain_log_scale

CLOCKS = {
    "epoch": ("epoch", "Equal data for every batch size."),
    "step": ("optimizer step", "Equal numbers of updates; a larger batch sees more data in them."),
    "samples": ("training samples seen", "Equal numbers of samples for every batch size."),
    "seconds": (
        "seconds of training",
        "Time of training, under whatever load there was; a mean over seeds. Replicas share one clock.",
    ),
}


def learning_curves(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Validation accuracy over training, with a tab for each clock."""
    recorded = study.recorded("val/accuracy")
    # A failed run's curve may end, and a mean that loses a run on the way would jump.
    recorded = recorded[~recorded["failed"]]
    if recorded.empty:
        title = "Validation accuracy over training"
        yield Skipped("learning", title, "no run that learned recorded val/accuracy")
        return
    # Runs of one arm and level are validated at the same steps. Only their seconds differ.
    curve = curves(recorded, ["arm", "level"], "step")
    clocks = recorded.groupby(["arm", "level", "step"], observed=True)[["epoch", "samples", "seconds"]].mean()
    curve = curve.merge(clocks.reset_index(), on=["arm", "level", "step"])
    first = "step" if study.summaries["max_steps"].notna().any() else "epoch"
    for clock in sorted(CLOCKS, key=lambda clock: clock != first):
        yield over_clock(study, style, curve, clock)


def over_clock(study: Study, style: Style, curve: pd.DataFrame, clock: str) -> Drawing:
    """The curves over one clock, one panel per level."""
    xlabel, meaning = CLOCKS[clock]

    def draw(axes: Axes, level: float) -> dict[str, float]:
        ends = {}
        here = curve[curve["level"] == level]
        for arm, rows in here.groupby("arm", observed=True):
            words = [
                f"{clock} {x:.4g}: {100 * y:.1f}%" for x, y in zip(rows[clock], rows["mean"], strict=True)
            ]
            # Validated once: draw a point, because a line would not show.
            alone = "o" if len(rows) == 1 else ""
            name = f"{arm} {level_title(study, level)}"
            ends[arm] = draw_line(axes, style, arm, rows[clock], rows["mean"], name, words, marker=alone)
            style.band(axes, arm, rows[clock], rows)
        percent(axes.yaxis)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=clock != "seconds"))
        axes.set_ylim(max(0.0, curve["mean"].min() - 0.05), 1.0)  # the panels share this axis
        return ends

    figure, shown = level_panels(study, style, xlabel, "validation accuracy", draw, sharex=clock == "epoch")
    caption = f"Mean over seeds and its 95% interval. {meaning} {note(study)}"
    caption += left_out(f"values of {label(study.x)}", shown, len(study.levels)) if study.x else ""
    return Drawing(f"learning_{clock}", f"Validation accuracy by {xlabel}", caption, figure, tab=clock)


UNITS = {"steps": "optimizer steps", "epochs": "passes over the data", "seconds": "seconds of training"}
NEARLY_ALL = 0.9  # of the runs
TITLE = "How long to a given accuracy"


def steps_to_accuracy(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """How soon each run reaches an accuracy that nearly all of them reach."""
    target = choose_target(study.chosen)
    if target is None:
        yield Skipped("convergence", TITLE, "no accuracy on the list was reached by nine runs of ten")
        return
    columns = 3 if room().columns > 3 else 1
    panel = (room().width / columns, height_for(study.arms, 2.8))
    figure, all_axes = new_figure(3 // columns, columns, panel=panel)
    for axes, (unit, words) in zip(all_axes, UNITS.items(), strict=True):
        ends = {
            arm: draw_arm(study, style, axes, arm, f"convergence.{unit}_to_{target}") for arm in study.arms
        }
        plain_log_scale(axes)
        axes.set_title(words)
        if study.x:
            scale_of_levels(axes, study)
        else:
            axes.set_xticks([])
        if axes is all_axes[-1] or columns == 1:
            label_lines(axes, ends, style)
    censored = int(study.chosen[f"convergence.steps_to_{target}"].isna().sum())
    caption = (
        f"First validation with an accuracy of at least {float(target):.4g}: geometric mean over the runs that reached "
        f"it, with its 95% interval. Hollow markers: not every run of the point reached it ({censored} of "
        f"{len(study.chosen)} runs did not), so the true mean lies higher and there is no interval. No marker: no "
        "run did."
    )
    yield Drawing("convergence", f"How long to {float(target):.4g} validation accuracy", caption, figure)


def draw_arm(study: Study, style: Style, axes: Axes, arm: str, column: str) -> float:
    """Draw the arm's line. Returns the value at its end."""
    rows, colour = study.chosen[study.chosen["arm"] == arm], style.colour[arm]
    groups = rows.groupby(study.x)[column] if study.x else [(study.arms.index(arm), rows[column])]
    means = {}
    for level, values in groups:
        found = estimate(np.log(values.clip(lower=1e-9)))
        if not found.n:
            continue
        means[level] = np.exp(found.mean)
        full = found.n == len(values)
        look = {"color": colour, "markerfacecolor": colour if full else "white"}
        axes.plot(level, means[level], marker=style.marker[arm], **look)
        if full and found.n >= FEWEST_DRAWN:
            axes.plot([level, level], np.exp([found.low, found.high]), color=colour, linewidth=1)
    words = [(f"{label(study.x)} {x:g}: " if study.x else "") + f"{mean:.4g}" for x, mean in means.items()]
    return draw_line(axes, style, arm, list(means), list(means.values()), arm, words)


def choose_target(summaries: pd.DataFrame) -> str | None:
    """The highest accuracy that nearly all runs reached. Of an arm that rarely does, the few that do look fast."""
    names = [m[1] for name in summaries if (m := re.fullmatch(r"convergence\.steps_to_(.+)", name))]
    reached = [
        name for name in names if summaries[f"convergence.steps_to_{name}"].notna().mean() >= NEARLY_ALL
    ]
    return max(reached, key=float, default=None)
