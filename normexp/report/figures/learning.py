"""Validation curves: mean with interval over seeds, by epoch, step, sample and second."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.ticker import MaxNLocator

from normexp.report.figure import Drawing, Skipped
from normexp.report.figures.final import note
from normexp.report.panels import left_out, level_title, levels_shown, panels
from normexp.report.seed_statistics import curves
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, percent
from normexp.report.svg import tell

CLOCKS = {
    "epoch": "epoch",
    "step": "optimizer step",
    "samples": "training samples seen",
    "seconds": "seconds of training",
}
MEANING = {
    "epoch": "Equal data for every batch size.",
    "step": "Equal numbers of updates; a larger batch sees more data in them.",
    "samples": "Equal numbers of samples for every batch size.",
    "seconds": "Time of training, under whatever load there was; a mean over seeds. Replicas share one clock.",
}


def learning_curves(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Validation accuracy over training, with a tab for each clock."""
    recorded = study.recorded("val/accuracy")
    # A diverged run's curve ends, and a mean that loses a run on the way would jump.
    recorded = recorded[recorded["status"] == "completed"]
    if recorded.empty:
        yield Skipped(
            "learning", "Validation accuracy over training", "no completed run recorded val/accuracy"
        )
        return
    # Runs of one arm and level are validated at the same steps. Only their seconds differ.
    curve = curves(recorded, ["arm", "level"], "step")
    clocks = recorded.groupby(["arm", "level", "step"], observed=True)[["epoch", "samples", "seconds"]].mean()
    curve = curve.merge(clocks.reset_index(), on=["arm", "level", "step"])
    for clock, words in CLOCKS.items():
        yield draw(study, style, curve, clock, words)


def draw(study: Study, style: Style, curve: pd.DataFrame, clock: str, words: str) -> Drawing:
    """The curves over one clock, one panel per level."""
    figure, shown = panels(
        levels_shown(study),
        words,
        "validation accuracy",
        height=height_for(study.arms, 2.5),
        names=study.arms,
        sharey=True,
        sharex=clock == "epoch",
    )
    for level, axes in shown.items():
        ends = {}
        here = curve[curve["level"] == level]
        for arm, rows in here.groupby("arm", observed=True):
            # Validated once: draw a point, because a line would not show.
            alone = "o" if len(rows) == 1 else ""
            axes.plot(rows[clock], rows["mean"], marker=alone, **style.line(arm))
            axes.fill_between(
                rows[clock], rows["low"], rows["high"], color=style.colour[arm], alpha=0.15, linewidth=0
            )
            ends[arm] = rows["mean"].iloc[-1]
            words = [
                f"{clock} {x:.4g}: {100 * y:.1f}%" for x, y in zip(rows[clock], rows["mean"], strict=True)
            ]
            tell(axes, rows[clock], rows["mean"], f"{arm} {level_title(study, level)}".strip(), words)
        axes.set_title(level_title(study, level))
        percent(axes.yaxis)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=clock != "seconds"))
        axes.set_ylim(max(0.0, here["mean"].min() - 0.05), 1.0)
        if axes is list(shown.values())[-1] or len(shown) <= 2:
            label_lines(axes, ends, style)
    caption = f"Mean over seeds and its 95% interval. {MEANING[clock]} {note(study)}"
    caption += left_out(f"values of {label(study.x)}", len(shown), len(study.levels)) if study.x else ""
    return Drawing(f"learning_{clock}", f"Validation accuracy by {words}", caption, figure, tab=clock)
