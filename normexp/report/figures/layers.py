"""Inside the network: measures by layer over depth and time, and what other monitors measured over the training."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import Drawing, Skipped, left_out, level_panels, panels
from normexp.report.figures.results import over_seeds
from normexp.report.statistics import curves
from normexp.report.study import Study
from normexp.report.style import Style, draw_curves, height_for, label_lines, plain_log_scale, shade, shorten

LAYER = r"/(layer\d+\w*)"
MOST_ARMS = 8
FEWEST_STEPS = 6  # of a figure over time
NO_GRADIENT = "gradient_norm was not recorded; run with monitor=light"
BANDS = ("preactivation", "activation", "norm_output")  # the first that was recorded is shown


def by_layer(study: Study, statistic: str) -> pd.DataFrame:
    """The recorded rows of a statistic with the columns `layer` (name) and `depth` (1-based place)."""
    rows = study.recorded(statistic + LAYER)
    rows = rows.assign(layer=rows["metric"].map(lambda name: name.partition("/")[2]).astype(object))
    # Names sort in forward order. Deeper networks have more layers, so rank them separately for each level.
    depths = rows.groupby("level")["layer"].rank(method="dense") if len(rows) else rows["level"]
    return rows.assign(depth=depths.astype(int))


def percentiles(study: Study) -> tuple[str, pd.DataFrame]:
    """What enters the non-linearities at the middle level: the first of BANDS that was recorded, and the rows of its
    percentiles by layer, with the column `percentile`."""
    found = {band: by_layer(study, rf"{band}_p\d+").query("level == @study.middle") for band in BANDS}
    band = next((band for band in BANDS if len(found[band])), BANDS[0])
    number = found[band]["metric"].map(lambda name: name.partition("/")[0].rpartition("_p")[2])
    return band, found[band].assign(percentile=number.astype(int))


def at_step(rows: pd.DataFrame, end: str) -> pd.DataFrame:
    """The rows of each run's first recorded step, `min`, or of its last, `max`."""
    steps = rows.groupby(["arm", "level", "seed"], observed=True)["step"]
    return rows[rows["step"] == steps.transform(end)]


def depth_profile(study: Study, style: Style, rows: pd.DataFrame, label: str, *, log: bool) -> tuple:
    """Mean over seeds against the layer, one panel per level: the first measurement dotted, the last solid. Returns the
    figure, and what its caption must add."""
    first, last = (curves(at_step(rows, end), ["arm", "level"], "depth", log=log) for end in ("min", "max"))

    def draw(axes: Axes, level: float) -> dict[str, float]:
        look = {"band": False, "linestyle": ":", "linewidth": 1}
        draw_curves(axes, style, first[first["level"] == level], "depth", **look)
        ends = draw_curves(axes, style, last[last["level"] == level], "depth", marker=".")
        if log:
            plain_log_scale(axes)
        else:
            axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        return ends

    return level_panels(study, style, "layer, input to output", label, draw)


def gradient_by_depth(study: Study, style: Style) -> list[Drawing | Skipped]:
    """Gradient norm of each layer, at the first and the last measurement."""
    rows, title = by_layer(study, "gradient_norm"), "Gradient norm by depth"
    if rows.empty:
        return [Skipped(title, NO_GRADIENT)]
    caption = (
        "Norm of the loss's gradient with respect to each layer's weights, geometric mean over seeds: dotted "
        "at the first measurement, solid at the last. A line that falls toward the input is a vanishing gradient."
    )
    figure, more = depth_profile(study, style, rows, "gradient norm", log=True)
    return [Drawing("gradient_by_depth", title, caption + more, figure)]


def saturation_by_layer(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Fraction of saturated and of dead units of each layer, at the first and the last measurement."""
    whys = {"saturated": "only bounded activations (sigmoid, tanh) saturate", "dead": "see monitor=light"}
    for label, why in whys.items():
        name = f"{label}_fraction"
        rows, title = by_layer(study, name), f"{label.capitalize()} units by layer"
        if not rows["value"].any():
            none = f"no unit was {label} at any measurement"
            yield Skipped(title, f"{name} was not recorded: {why}" if rows.empty else none)
            continue
        caption = f"Fraction of a layer's activations that are {label}: dotted at the first measurement, solid at the "
        caption += "last."
        figure, more = depth_profile(study, style, rows, f"{label} fraction", log=False)
        yield Drawing(name, title, caption + more, figure)


def activation_bands(study: Study, style: Style) -> list[Drawing | Skipped]:
    """Percentiles of the last measured layer's activations over training, one panel per arm: BatchNorm's Figure 1."""
    title, (band, rows) = "What enters the last non-linearity", percentiles(study)
    layer = rows["layer"].max()
    rows = rows[rows["layer"] == layer]
    if rows["step"].nunique() < FEWEST_STEPS:
        return [Skipped(title, "no percentiles were recorded often enough; run with monitor=light")]
    arms = [arm for arm in study.arms if (rows["arm"] == arm).any()]
    figure, panel_of = panels(arms[:MOST_ARMS], "optimizer step", f"{band} of {layer}", sharey=True)
    numbers = sorted(rows["percentile"].unique())
    for arm, panel in panel_of.items():
        panel.set_title(shorten(arm), color=style.color[arm])
        means = rows[rows["arm"] == arm].groupby(["step", "percentile"])["value"].mean().unstack()
        for number in numbers:
            wide = 1.6 if number == 50 else 0.9
            panel.plot(means.index, means[number], color=style.color[arm], linewidth=wide)
        panel.fill_between(means.index, means[numbers[0]], means[numbers[-1]], **shade(style.color[arm]))
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    caption = (
        f"Percentiles {', '.join(map(str, numbers))} over a batch{study.at_level()}, mean over seeds (Ioffe, Szegedy "
        "2015, Figure 1): a band that stays where it is leaves the layer's input distribution alone."
    )
    return [Drawing("activation_bands", title, caption + left_out("arms", len(panel_of), len(arms)), figure)]


# A metric -> its words, and whether its axis is logarithmic (Santurkar et al. 2018 for the loss and the gradients).
MEASURES = {
    "effective_beta": ("effective beta", True),
    "gradient_predictiveness_max": ("change of gradient", True),
    "hessian_top_eigenvalue": ("top Hessian eigenvalue", True),
    "ics_distance": ("gradient moved by others' step", True),
    "mean_drift_from_start": ("drift of means", False),
    "effective_rank": ("effective rank", False),
    "abs_cosine": ("cosine between samples", False),
    "update_ratio": ("update over weight", True),
}


def measured(study: Study, name: str, level: float, *, log: bool) -> pd.DataFrame:
    """Columns arm, seed, step, value at one level: over layers the mean, or the median for a logarithmic axis."""
    rows = study.recorded(rf"{name}/\w+")
    rows = rows[(rows["level"] == level) & ((rows["value"] > 0) | (not log))]
    by_run = rows.groupby(["arm", "seed", "step"], observed=True)["value"]
    return by_run.agg("median" if log else "mean").reset_index()


def over_training(study: Study, style: Style) -> list[Drawing | Skipped]:
    """A panel for each of the measures that was recorded."""
    title, level = "Other measures over training", study.middle
    tables = {name: measured(study, name, level, log=log) for name, (_, log) in MEASURES.items()}
    recorded = {name: rows for name, rows in tables.items() if len(rows)}
    if not recorded:
        return [Skipped(title, "none was recorded; run with monitor=full")]
    figure, panel_of = panels(list(recorded), "optimizer step", "", height=height_for(study.arms, 2.4))
    for name, axes in panel_of.items():
        label, log = MEASURES[name]
        ends = draw_curves(axes, style, curves(recorded[name], ["arm"], "step", log=log), "step")
        if log:
            plain_log_scale(axes)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
        axes.set_title(label)
    label_lines(axes, ends, style)  # beside the last panel
    caption = f"{over_seeds(study)}{study.at_level()}; of a measure by layer, the middle layer's (docs/monitors.md)."
    return [Drawing("measures", title, caption, figure)]
