"""Validation curves: mean with interval over seeds, by epoch, step, sample and second."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import Drawing, Skipped, left_out, level_title
from normexp.report.figures.final import note
from normexp.report.figures.lines import draw_line, level_panels
from normexp.report.statistics import curves
from normexp.report.study import Study, label
from normexp.report.style import Style, percent

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
    for clock in CLOCKS:
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
