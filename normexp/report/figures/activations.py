"""Percentile bands of what enters a non-linearity: BatchNorm's Figure 1."""

import re
from collections.abc import Iterator

from normexp.report.figure import Drawing, Skipped
from normexp.report.figures.layers import MOST_ARMS
from normexp.report.panels import level_title, middle, panels
from normexp.report.study import Study
from normexp.report.style import Style

TITLE = "What enters the last non-linearity"
BANDS = ("preactivation", "activation", "norm_output")  # the first that was recorded is shown


def activation_bands(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    names = study.metrics["metric"].cat.categories
    found = {}
    for place in BANDS:
        layers = {match[1] for name in names if (match := re.fullmatch(rf"{place}_p50/(\w+)", name))}
        if layers:
            found = {"place": place, "layer": max(layers)}
            break
    if not found:
        yield Skipped("activation_bands", TITLE, "no percentiles were recorded; run with monitor=light")
        return
    level, place, layer = middle(study), found["place"], found["layer"]
    rows = study.recorded(rf"{place}_p\d+/{layer}")
    rows = rows[rows["level"] == level]
    shown = [arm for arm in study.arms if (rows["arm"] == arm).any()][:MOST_ARMS]
    figure, axes = panels(shown, "optimizer step", f"{place} of {layer}", sharey=True)
    percentiles = sorted(int(m[1]) for name in rows["metric"].unique() if (m := re.search(r"_p(\d+)/", name)))
    for arm, panel in axes.items():
        means = rows[rows["arm"] == arm].groupby(["metric", "step"], observed=True)["value"].mean()
        for percentile in percentiles:
            curve = means[f"{place}_p{percentile:02d}/{layer}"]
            inner = percentile == 50
            panel.plot(curve.index, curve, color=style.colour[arm], linewidth=1.6 if inner else 0.9)
        low, high = (means[f"{place}_p{p:02d}/{layer}"] for p in (percentiles[0], percentiles[-1]))
        panel.fill_between(low.index, low, high, color=style.colour[arm], alpha=0.15, linewidth=0)
        panel.set_title(arm, color=style.colour[arm])
    where = f" at {level_title(study, level)}" if study.x else ""
    caption = (
        f"Percentiles {', '.join(map(str, percentiles))} over a batch{where}, mean over seeds (Ioffe, Szegedy 2015, "
        "Figure 1): a band that stays where it is leaves the layer's input distribution alone."
    )
    yield Drawing("activation_bands", TITLE, caption, figure)
