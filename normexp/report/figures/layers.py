"""Measures by layer: how gradients change over depth and time, and where activations saturate."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from normexp.report.figure import Drawing, Skipped
from normexp.report.panels import left_out, level_title, levels_shown, middle, panels
from normexp.report.seed_statistics import curves
from normexp.report.study import Study, label
from normexp.report.style import Style, height_for, label_lines, plain_log_scale, plain_log_ticks, shorten
from normexp.report.svg import tell

LAYER = r"/(layer\d+\w*)"
MOST_ARMS = 8


def by_layer(study: Study, statistic: str) -> pd.DataFrame:
    """The recorded rows of a statistic with the columns `layer` (name) and `depth` (1-based place)."""
    rows = study.recorded(statistic + LAYER)
    if rows.empty:
        return rows.assign(layer=[], depth=[])
    layers = rows["metric"].astype(str).str.partition("/")[2]
    rows = rows.assign(layer=layers)
    # Names sort in forward order. Deeper networks have more layers, so count places separately for each level.
    places = rows.groupby("level")["layer"].transform(lambda names: names.rank(method="dense"))
    return rows.assign(depth=places.astype(int))


def at_step(rows: pd.DataFrame, first: bool) -> pd.DataFrame:
    """The rows of each run's first, or last, recorded step."""
    steps = rows.groupby(["arm", "level", "seed"], observed=True)["step"]
    return rows[rows["step"] == steps.transform("min" if first else "max")]


def depth_profile(
    study: Study,
    style: Style,
    rows: pd.DataFrame,
    name: str,
    title: str,
    words: str,
    caption: str,
    *,
    log: bool,
) -> Drawing:
    """Mean over seeds against the layer, one panel per level: the first measurement dotted, the last solid."""
    figure, shown = panels(
        levels_shown(study),
        "layer, input to output",
        words,
        height=height_for(study.arms, 2.5),
        names=study.arms,
        sharey=True,
    )
    first, last = (
        curves(at_step(rows, which), ["arm", "level"], "depth", log=log) for which in (True, False)
    )
    drawn = pd.concat([curve[curve["level"].isin(list(shown))] for curve in (first, last)])["mean"]
    window = readable(drawn) if log else (0.0, 1.0)
    outside = int(((drawn < window[0]) | (drawn > window[1])).sum()) if log else 0
    for level, axes in shown.items():
        ends = {}
        for curve, look in ((first, {"linestyle": ":", "linewidth": 1}), (last, {})):
            for arm, points in curve[curve["level"] == level].groupby("arm", observed=True):
                axes.plot(
                    points["depth"],
                    points["mean"],
                    **{**style.line(arm), "marker": "." if not look else "", **look},
                )
                if not look:
                    axes.fill_between(
                        points["depth"],
                        points["low"],
                        points["high"],
                        color=style.colour[arm],
                        alpha=0.15,
                        linewidth=0,
                    )
                    ends[arm] = points["mean"].iloc[-1]
                    told = [
                        f"layer {x}: {y:.3g}" for x, y in zip(points["depth"], points["mean"], strict=True)
                    ]
                    panel = f"{arm} {level_title(study, level)}".strip()
                    tell(axes, points["depth"], points["mean"], panel, told)
        if log:
            plain_log_scale(axes)
            axes.set_ylim(*window)
            plain_log_ticks(axes.yaxis, *window)
        else:
            axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.set_title(level_title(study, level))
        if axes is list(shown.values())[-1] or len(shown) <= 2:
            label_lines(axes, ends, style)
    caption += left_out(f"values of {label(study.x)}", len(shown), len(study.levels)) if study.x else ""
    if outside:
        caption += (
            f" The axis is cut so that the others can be read: {outside} of {len(drawn)} points lie outside, from "
            f"{drawn.min():.2g} to {drawn.max():.2g}."
        )
    return Drawing(name, title, caption, figure)


def readable(values: pd.Series) -> tuple[float, float]:
    """The ends of a logarithmic axis: all values if they span less than five decades, else 2% to 98% of them, with
    some room."""
    low, high = values.min(), values.max()
    if high > 1e5 * low:
        low, high = values.quantile(0.02), values.quantile(0.98)
    return low / 1.6, high * 1.6


def gradient_by_depth(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Gradient norm of each layer, at the first and the last measurement."""
    rows = by_layer(study, "gradient_norm")
    title = "Gradient norm by depth"
    if rows.empty:
        yield Skipped("gradient_by_depth", title, "gradient_norm was not recorded; run with monitor=light")
        return
    caption = (
        "Norm of the loss's gradient with respect to each layer's weights, geometric mean over seeds with its 95% "
        "interval: dotted at the first measurement, solid at the last. A line that falls toward the input is "
        "a vanishing gradient."
    )
    yield depth_profile(study, style, rows, "gradient_by_depth", title, "gradient norm", caption, log=True)


def saturation_by_layer(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Fraction of saturated and of dead units of each layer, at the first and the last measurement."""
    for statistic, words in (("saturated_fraction", "saturated"), ("dead_fraction", "dead")):
        rows = by_layer(study, statistic)
        title = f"{words.capitalize()} units by layer"
        if rows.empty:
            why = (
                "only bounded activations (sigmoid, tanh) saturate"
                if words == "saturated"
                else "see monitor=light"
            )
            yield Skipped(statistic, title, f"{statistic} was not recorded: {why}")
            continue
        caption = (
            f"Fraction of a layer's activations that are {words}: dotted at the first measurement, solid at "
            "the last."
        )
        yield depth_profile(study, style, rows, statistic, title, f"{words} fraction", caption, log=False)


def gradient_over_time(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Layer x time heat maps, one per arm, with one color scale."""
    rows, title = by_layer(study, "gradient_norm"), "Gradient norm over depth and time"
    rows = rows[(rows["level"] == middle(study)) & (rows["value"] > 0)]
    if rows.empty:
        yield Skipped("gradient_over_time", title, "gradient_norm was not recorded; run with monitor=light")
        return
    arms = [arm for arm in study.arms if (rows["arm"] == arm).any()]
    shown = arms[:MOST_ARMS]
    figure, axes = panels(shown, "optimizer step", "layer", height=2.2, sharey=True)
    scale = LogNorm(rows["value"].quantile(0.01), rows["value"].quantile(0.99))
    image = None
    for arm, panel in axes.items():
        here = rows[rows["arm"] == arm].groupby(["depth", "step"])["value"].mean().unstack()
        image = panel.pcolormesh(
            here.columns, here.index, here, norm=scale, shading="nearest", rasterized=True
        )
        panel.set_xlim(left=here.columns.min())  # each cell has its step in the middle
        panel.set_title(shorten(arm), color=style.colour[arm])
        panel.grid(visible=False)
        panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        panel.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    bar = figure.colorbar(image, ax=list(axes.values()), shrink=0.9, pad=0.01)
    bar.set_label("gradient norm", fontsize=8)
    bar.outline.set_visible(False)
    plain_log_ticks(bar.ax.yaxis, scale.vmin, scale.vmax)
    where = f" At {level_title(study, middle(study))}." if study.x else ""
    caption = f"Mean over seeds; dark is small.{where} Layers from the input (below) to the output (above)."
    caption += left_out("arms", len(shown), len(arms))
    yield Drawing("gradient_over_time", title, caption, figure)
