"""How long each arm takes to reach a validation accuracy."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from normexp.report.figure import Drawing, Skipped
from normexp.report.figures.final import scale_of_levels
from normexp.report.room import room
from normexp.report.seed_statistics import FEWEST_DRAWN, estimate
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, new_figure, plain_log_scale
from normexp.report.svg import tell

UNITS = {"steps": "optimizer steps", "epochs": "passes over the data", "seconds": "seconds of training"}
TITLE = "How long to a given accuracy"


def steps_to_accuracy(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """How soon each run reaches an accuracy that most of them reach."""
    target = choose_target(study.chosen)
    if target is None:
        yield Skipped("convergence", TITLE, "no accuracy on the list was reached by half of the runs")
        return
    columns = 3 if room().columns > 3 else 1
    panel = (room().width / columns, height_for(study.arms, 2.8))
    figure, axes = new_figure(3 // columns, columns, panel=panel)
    for panel, (unit, words) in zip(axes, UNITS.items(), strict=True):
        ends: dict[str, float] = {}
        for place, arm in enumerate(study.arms):
            ends[arm] = draw_arm(study, style, panel, arm, f"convergence.{unit}_to_{target}", place)
        plain_log_scale(panel)
        panel.set_title(words)
        if study.x:
            scale_of_levels(panel, study)
        else:
            panel.set_xticks([])
        if panel is axes[-1] or columns == 1:
            label_lines(panel, ends, style)
    censored = int(study.chosen[f"convergence.steps_to_{target}"].isna().sum())
    caption = (
        f"First validation with an accuracy of at least {float(target):.4g}: geometric mean over the runs that reached "
        f"it, with its 95% interval. Hollow markers: not every run of the point reached it ({censored} of "
        f"{len(study.chosen)} runs did not), so the true mean lies higher and there is no interval. No marker: no "
        "run did."
    )
    yield Drawing("convergence", f"How long to {float(target):.4g} validation accuracy", caption, figure)


def draw_arm(study: Study, style: Style, axes, arm: str, column: str, place: int) -> float:
    """Draw the arm's line. Returns the value at its end."""
    rows = study.chosen[study.chosen["arm"] == arm]
    groups = rows.groupby(study.x)[column] if study.x else [(place, rows[column])]
    xs, means = [], []
    for level, values in groups:
        found = estimate(np.log(values.clip(lower=1e-9)))
        if not found.n:
            continue
        xs.append(level)
        means.append(np.exp(found.mean))
        full = found.n == len(values)
        axes.plot(
            level, means[-1], marker=style.marker[arm], color=style.colour[arm],
            markerfacecolor=style.colour[arm] if full else "white",
        )  # fmt: skip
        if full and found.n >= FEWEST_DRAWN:
            axes.plot([level, level], np.exp([found.low, found.high]), color=style.colour[arm], linewidth=1)
    axes.plot(xs, means, **style.line(arm))
    places = [f"{label(study.x)} {x:g}: " if study.x else "" for x in xs]
    tell(axes, xs, means, arm, [f"{place}{mean:.4g}" for place, mean in zip(places, means, strict=True)])
    return means[-1] if means else np.nan


def choose_target(summaries: pd.DataFrame) -> str | None:
    """The highest accuracy that at least half of the runs reached."""
    names = [m[1] for name in summaries if (m := re.fullmatch(r"convergence\.steps_to_(.+)", name))]
    reached = [name for name in names if summaries[f"convergence.steps_to_{name}"].notna().mean() >= 0.5]
    return max(reached, key=float, default=None)
