"""Percentile bands of the input of a non-linearity: BatchNorm's Figure 1."""

import re
from collections.abc import Iterator

import pandas as pd
from matplotlib.ticker import MaxNLocator

from normexp.report.figure import Drawing, Skipped
from normexp.report.figures.layers import MOST_ARMS
from normexp.report.panels import left_out, level_title, middle, panels
from normexp.report.study import Study
from normexp.report.style import Style, shorten

TITLE = "What enters the last non-linearity"
BANDS = ("preactivation", "activation", "norm_output")  # the first that was recorded is shown


def activation_bands(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Percentiles of the last measured layer's activations over training, one panel per arm."""
    level, rows = middle(study), study.metrics
    rows = rows[rows["level"] == level]  # deeper networks have more layers
    place, layer = last_measured(rows)
    rows = rows[rows["metric"].astype(str).str.fullmatch(rf"{place}_p\d+/{layer}")]
    arms = [arm for arm in study.arms if (rows["arm"] == arm).any()]
    if not arms:
        yield Skipped("activation_bands", TITLE, "no percentiles were recorded; run with monitor=light")
        return
    shown = arms[:MOST_ARMS]
    figure, axes = panels(shown, "optimizer step", f"{place} of {layer}", sharey=True)
    percentiles = sorted({int(re.search(r"_p(\d+)/", name)[1]) for name in rows["metric"].unique()})
    names = [f"{place}_p{percentile:02d}/{layer}" for percentile in percentiles]
    for arm, panel in axes.items():
        here, colour = rows[rows["arm"] == arm], style.colour[arm]
        means = (
            here.groupby(["step", "metric"], observed=True)["value"].mean().unstack().reindex(columns=names)
        )
        for percentile, name in zip(percentiles, names, strict=True):
            panel.plot(means.index, means[name], color=colour, linewidth=1.6 if percentile == 50 else 0.9)
        panel.fill_between(
            means.index, means[names[0]], means[names[-1]], color=colour, alpha=0.15, linewidth=0
        )
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        panel.set_title(shorten(arm), color=colour)
    where = f" at {level_title(study, level)}" if study.x else ""
    caption = (
        f"Percentiles {', '.join(map(str, percentiles))} over a batch{where}, mean over seeds (Ioffe, Szegedy 2015, "
        "Figure 1): a band that stays where it is leaves the layer's input distribution alone."
    )
    caption += left_out("arms", len(shown), len(arms))
    yield Drawing("activation_bands", TITLE, caption, figure)


def last_measured(rows: pd.DataFrame) -> tuple[str, str]:
    """The first of BANDS that was recorded, and its last layer."""
    found = [re.fullmatch(r"(\w+)_p50/(\w+)", str(name)) for name in rows["metric"].unique()]
    layers = {place: [m[2] for m in found if m and m[1] == place] for place in BANDS}
    place = next((place for place in BANDS if layers[place]), BANDS[0])
    return place, max(layers[place], default="")
