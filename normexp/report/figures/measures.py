"""What monitors measured over the training of each arm: a chapter a question, a panel for each measure."""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd
from matplotlib.ticker import MaxNLocator

from normexp.report.drawing import Drawing, Skipped, level_title, middle, panels
from normexp.report.figures.lines import draw_line
from normexp.report.statistics import curves
from normexp.report.study import Study
from normexp.report.style import Style, height_for, label_lines, plain_log_scale

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
        found = rows.pivot_table("value", by, "name", observed=True)
        return (found[first] - found[second]).rename("value").reset_index().dropna()
    rows = rows[rows["value"] > 0] if log else rows
    middle_of = "median" if log else "mean"
    return rows.groupby(by, observed=True)["value"].agg(middle_of).reset_index()


def over_training(
    name: str, title: str, measures: Sequence[Measure], meaning: str
) -> Callable[[Study, Style], Iterator[Drawing | Skipped]]:
    """The maker of a figure with a panel for each of the measures that was recorded."""

    def make(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
        level = middle(study)
        found = {words: (measured(study, names, level, log=log), log) for names, words, log in measures}
        found = {words: own for words, own in found.items() if len(own[0])}
        if not found:
            yield Skipped(name, title, f"{measures[0][1]} was not recorded; run with monitor=full")
            return
        height = height_for(study.arms, 2.4)
        figure, shown = panels(list(found), "optimizer step", "", height=height, names=study.arms)
        for words, axes in shown.items():
            rows, log = found[words]
            curve, ends = curves(rows, ["arm"], "step", log=log), {}
            for arm, own in curve.groupby("arm", observed=True):
                told = [f"step {x:.0f}: {y:.3g}" for x, y in zip(own["step"], own["mean"], strict=True)]
                look = {"marker": "o" if len(own) == 1 else ""}
                ends[arm] = draw_line(
                    axes, style, arm, own["step"], own["mean"], f"{arm} {words}", told, **look
                )
                style.band(axes, arm, own["step"], own)
            if log:
                plain_log_scale(axes)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
            axes.set_title(words)
            if axes is list(shown.values())[-1]:
                label_lines(axes, ends, style)
        where = f" At {level_title(study, level)}." if study.x else ""
        caption = f"{meaning}{where} Mean over seeds and its 95% interval; of a measure by layer, the middle layer's."
        yield Drawing(name, title, caption, figure)

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
