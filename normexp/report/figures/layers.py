"""Inside the network: measures by layer over depth and time, and what other monitors measured over the training."""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import MOST_PANELS, Drawing, Skipped, left_out, level_panels, panels
from normexp.report.figures.results import over_seeds
from normexp.report.statistics import curves
from normexp.report.study import Study
from normexp.report.style import (
    Style,
    draw_curves,
    height_for,
    label_lines,
    plain_log_scale,
    plain_log_ticks,
    shade,
    shorten,
)

LAYER = r"/(layer\d+\w*)"
MOST_ARMS = 8
FEWEST_STEPS = 6  # of a figure over time
NO_GRADIENT = "gradient_norm was not recorded; run with monitor=light"
BANDS = ("preactivation", "activation", "norm_output")  # the first that was recorded is shown


def by_layer(study: Study, statistic: str) -> pd.DataFrame:
    """The recorded rows of a statistic with the columns `layer` (name) and `depth` (1-based place)."""
    rows = study.recorded(statistic + LAYER)
    rows = rows.assign(layer=rows["metric"].map(lambda name: name.partition("/")[2]).astype(object))
    # Names sort in forward order. Deeper networks have more layers, so count places separately for each level.
    places = rows.groupby("level")["layer"].rank(method="dense") if len(rows) else rows["level"]
    return rows.assign(depth=places.astype(int))


def percentiles(study: Study) -> tuple[str, pd.DataFrame]:
    """What enters the non-linearities at the middle level: the first of BANDS that was recorded, and the rows of its
    percentiles by layer, with the column `percentile`."""
    for band in BANDS:
        rows = by_layer(study, rf"{band}_p\d+")
        rows = rows[rows["level"] == study.middle]
        if len(rows):
            break
    number = rows["metric"].map(lambda name: name.partition("/")[0].rpartition("_p")[2])
    return band, rows.assign(percentile=number.astype(int))


def too_few(rows: pd.DataFrame) -> str:
    """The reason to draw nothing over time: a heat map of three columns shows no course. Empty if there are enough."""
    steps = rows["step"].nunique()
    return (
        f"measured at {steps} steps; with every_n_steps=null there are twenty" if steps < FEWEST_STEPS else ""
    )


def at_step(rows: pd.DataFrame, first: bool) -> pd.DataFrame:
    """The rows of each run's first, or last, recorded step."""
    steps = rows.groupby(["arm", "level", "seed"], observed=True)["step"]
    return rows[rows["step"] == steps.transform("min" if first else "max")]


def arm_panels(
    study: Study, style: Style, rows: pd.DataFrame, xlabel: str, ylabel: str, height: float = 2.5
) -> tuple[Figure, list[tuple[str, Axes, pd.DataFrame]], str]:
    """A figure with a panel for each arm of some rows; (arm, panel, its rows) of each; what the caption must add."""
    arms = [arm for arm in study.arms if (rows["arm"] == arm).any()]
    figure, axes = panels(arms[:MOST_ARMS], xlabel, ylabel, height=height, sharey=True)
    for arm, panel in axes.items():
        panel.set_title(shorten(arm), color=style.color[arm])
    panels_of_arms = [(arm, panel, rows[rows["arm"] == arm]) for arm, panel in axes.items()]
    return figure, panels_of_arms, left_out("arms", len(axes), len(arms))


def depth_profile(study: Study, style: Style, rows: pd.DataFrame, words: str, *, log: bool) -> tuple:
    """Mean over seeds against the layer, one panel per level: the first measurement dotted, the last solid. Returns the
    figure, and what its caption must add."""
    first, last = (
        curves(at_step(rows, which), ["arm", "level"], "depth", log=log) for which in (True, False)
    )
    drawn = pd.concat(
        [curve[curve["level"].isin(study.some_levels(MOST_PANELS))] for curve in (first, last)]
    )["mean"]
    window = readable(drawn) if log else (0.0, 1.0)

    def draw(axes: Axes, level: float) -> dict[str, float]:
        draw_curves(
            axes, style, first[first["level"] == level], "depth", band=False, linestyle=":", linewidth=1
        )
        ends = draw_curves(axes, style, last[last["level"] == level], "depth", marker=".")
        if log:
            plain_log_scale(axes)
            axes.set_ylim(*window)
            plain_log_ticks(axes.yaxis, *window)
        else:
            axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        return ends

    figure, more = level_panels(study, style, "layer, input to output", words, draw)
    outside = int(((drawn < window[0]) | (drawn > window[1])).sum()) if log else 0
    if outside:
        more += (
            f" The axis is cut so that the others can be read: {outside} of {len(drawn)} points lie outside, from "
            f"{drawn.min():.2g} to {drawn.max():.2g}."
        )
    return figure, more


def readable(values: pd.Series) -> tuple[float, float]:
    """The ends of a logarithmic axis: all values if they span less than five decades, else 2% to 98% of them, with
    some room."""
    low, high = values.min(), values.max()
    if high > 1e5 * low:
        low, high = values.quantile(0.02), values.quantile(0.98)
    return low / 1.6, high * 1.6


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
    for words, why in whys.items():
        name = f"{words}_fraction"
        rows, title = by_layer(study, name), f"{words.capitalize()} units by layer"
        if not rows["value"].any():
            none = f"no unit was {words} at any measurement"
            yield Skipped(title, f"{name} was not recorded: {why}" if rows.empty else none)
            continue
        caption = f"Fraction of a layer's activations that are {words}: dotted at the first measurement, solid at the "
        caption += "last."
        figure, more = depth_profile(study, style, rows, f"{words} fraction", log=False)
        yield Drawing(name, title, caption + more, figure)


def gradient_over_time(study: Study, style: Style) -> list[Drawing | Skipped]:
    """Layer x time heat maps, one per arm, with one color scale."""
    rows, title = by_layer(study, "gradient_norm"), "Gradient norm over depth and time"
    rows = rows[(rows["level"] == study.middle) & (rows["value"] > 0)]
    if why := NO_GRADIENT if rows.empty else too_few(rows):
        return [Skipped(title, why)]
    figure, shown, more = arm_panels(study, style, rows, "optimizer step", "layer", height=2.2)
    scale = LogNorm(rows["value"].quantile(0.01), rows["value"].quantile(0.99))
    look = {"norm": scale, "shading": "nearest", "rasterized": True}
    for _, panel, arm_rows in shown:
        here = arm_rows.groupby(["depth", "step"])["value"].mean().unstack()
        image = panel.pcolormesh(here.columns, here.index, here, **look)
        panel.set_xlim(left=here.columns.min())  # each cell has its step in the middle
        panel.grid(visible=False)
        panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        panel.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    bar = figure.colorbar(image, ax=[panel for _, panel, _ in shown], shrink=0.9, pad=0.01)
    bar.set_label("gradient norm", fontsize=8)
    bar.outline.set_visible(False)
    plain_log_ticks(bar.ax.yaxis, scale.vmin, scale.vmax)
    caption = f"Mean over seeds; dark is small.{study.at_middle(' At {}.')} "
    caption += f"Layers from the input (below) to the output (above).{more}"
    return [Drawing("gradient_over_time", title, caption, figure)]


def activation_bands(study: Study, style: Style) -> list[Drawing | Skipped]:
    """Percentiles of the last measured layer's activations over training, one panel per arm: BatchNorm's Figure 1."""
    title, (place, rows) = "What enters the last non-linearity", percentiles(study)
    layer = rows["layer"].max()
    rows = rows[rows["layer"] == layer]
    if why := "no percentiles were recorded; run with monitor=light" if rows.empty else too_few(rows):
        return [Skipped(title, why)]
    figure, shown, more = arm_panels(study, style, rows, "optimizer step", f"{place} of {layer}")
    numbers = sorted(rows["percentile"].unique())
    for arm, panel, arm_rows in shown:
        means = arm_rows.groupby(["step", "percentile"])["value"].mean().unstack().reindex(columns=numbers)
        for number in numbers:
            wide = 1.6 if number == 50 else 0.9
            panel.plot(means.index, means[number], color=style.color[arm], linewidth=wide)
        panel.fill_between(means.index, means[numbers[0]], means[numbers[-1]], **shade(style.color[arm]))
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    caption = (
        f"Percentiles {', '.join(map(str, numbers))} over a batch{study.at_middle()}, mean over seeds (Ioffe, Szegedy "
        "2015, Figure 1): a band that stays where it is leaves the layer's input distribution alone."
    )
    return [Drawing("activation_bands", title, caption + more, figure)]


# A metric, or two whose difference is shown; its words; whether the axis is logarithmic.
Measure = tuple[str, str, bool]
SMOOTHNESS: Sequence[Measure] = (
    ("landscape_loss_max-landscape_loss_min", "range of the loss", True),
    ("gradient_predictiveness_max", "change of gradient", True),
    ("effective_beta", "effective beta", True),
    ("hessian_top_eigenvalue", "top Hessian eigenvalue", True),
)
SHIFT: Sequence[Measure] = (
    ("ics_distance", "gradient moved by", True),
    ("ics_cosine", "cosine of gradients", False),
    ("mean_drift_from_start", "drift of means", False),
    ("std_drift_from_start", "drift of deviations", False),
)
REPRESENTATION: Sequence[Measure] = (
    ("effective_rank", "effective rank", False),
    ("abs_cosine", "cosine between samples", False),
    ("activation_std|preactivation_std", "deviation of activations", True),
    ("update_ratio", "update over weight", True),
)


def measured(study: Study, names: str, level: float, *, log: bool) -> pd.DataFrame:
    """Columns arm, seed, step, value at one level: the mean over layers, geometric for a logarithmic axis. `a-b` is a
    difference, and of `a|b` the first that was recorded is taken."""
    for name in names.split("|"):
        first, _, second = name.partition("-")
        rows = study.recorded(rf"(?:{first}|{second or first})/\w+")
        rows = rows[rows["level"] == level]
        if len(rows):
            break
    else:
        return rows
    by = ["arm", "seed", "step"]
    if second:
        rows = rows.assign(name=rows["metric"].map(lambda name: name.partition("/")[0]).astype(object))
        wide = rows.pivot_table("value", by, "name", observed=True)
        return (wide[first] - wide[second]).rename("value").reset_index().dropna()
    rows = rows[rows["value"] > 0] if log else rows
    middle_of = "median" if log else "mean"
    return rows.groupby(by, observed=True)["value"].agg(middle_of).reset_index()


def over_training(
    name: str, title: str, measures: Sequence[Measure], meaning: str
) -> Callable[[Study, Style], list[Drawing | Skipped]]:
    """The maker of a figure with a panel for each of the measures that was recorded."""

    def make(study: Study, style: Style) -> list[Drawing | Skipped]:
        level = study.middle
        recorded = {words: (measured(study, names, level, log=log), log) for names, words, log in measures}
        recorded = {words: measure for words, measure in recorded.items() if len(measure[0])}
        if not recorded:
            return [Skipped(title, f"{measures[0][1]} was not recorded; run with monitor=full")]
        height = height_for(study.arms, 2.4)
        figure, shown = panels(list(recorded), "optimizer step", "", height=height)
        for words, axes in shown.items():
            rows, log = recorded[words]
            curve = curves(rows, ["arm"], "step", log=log)
            ends = draw_curves(axes, style, curve, "step")
            if log:
                plain_log_scale(axes)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
            axes.set_title(words)
        label_lines(axes, ends, style)  # beside the last panel
        caption = f"{meaning}{study.at_middle(' At {}.')} {over_seeds(study)}; "
        caption += "of a measure by layer, the middle layer's."
        return [Drawing(name, title, caption, figure)]

    return make


smoothness = over_training(
    "smoothness", "How smooth the loss is", SMOOTHNESS,
    "Along the gradient of a training batch, at steps of fixed sizes: how far the loss ranges, how far the gradient "
    "changes, and the largest change of the gradient per length (Santurkar et al. 2018, Figure 4).",
)  # fmt: skip
covariate_shift = over_training(
    "covariate_shift", "What moves under a layer", SHIFT,
    "A layer's gradient before and after the earlier layers made their step (Santurkar et al. 2018, definition 2.1), "
    "and how far the moments of its input are from those at the start, in units of the deviation then.",
)  # fmt: skip
representation = over_training(
    "representation", "What layers make of the samples", REPRESENTATION,
    "The effective rank of a layer's output over samples and their mean absolute cosine tell whether samples stay "
    "apart; the update over the weight, of norms, how far a step moves a layer.",
)  # fmt: skip
