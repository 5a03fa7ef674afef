"""Learning rates: where each arm is best, and where it diverges."""

from collections.abc import Iterator

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator

from normexp.report.figure import Drawing, Skipped
from normexp.report.figures.final import dodge, scale_of_levels
from normexp.report.figures.over_rate import accuracy_over_rate
from normexp.report.room import room
from normexp.report.study import Study
from normexp.report.style import FAINT, INK, Style, height_for, label_lines, new_figure, shorten

TITLE = "Which learning rates each arm bears"


def learning_rates(study: Study, style: Style) -> Iterator[Drawing | Skipped]:
    """Which runs diverged at which learning rate, and the best rate over the study's axis."""
    rates = sorted(study.summaries["lr"].unique())
    if study.x != "lr" and not study.rate_varies:
        yield Skipped("learning_rates", TITLE, f"no arm was run with several learning rates ({rates[0]:g})")
        return
    if study.rate_varies:
        yield accuracy_over_rate(study, style, rates)
    beside = study.rate_varies and study.x is not None
    height = height_for(study.arms, 1.1 + max(1.2, 0.28 * len(study.arms)))
    columns = 2 if beside and room().columns > 2 else 1
    figure, axes = new_figure((1 + beside) // columns, columns, panel=(room().width / columns, height))
    draw_map(study, style, axes[-1], rates)
    caption = "Runs that diverged, of all with that learning rate; a dot is none."
    if beside:
        draw_best(study, style, axes[0], rates)
        caption = f"First: the learning rate of best mean validation accuracy. Then: {caption[0].lower()}{caption[1:]}"
    yield Drawing("learning_rates", TITLE, caption, figure)


def draw_best(study: Study, style: Style, axes, rates: list[float]) -> None:
    """The best learning rate against the factor of the study, with equal ones side by side."""
    ends = {}
    axes.set_yscale("log")
    axes.set_ylim(rates[0] / 1.6, rates[-1] * 1.6)
    axes.yaxis.set_major_locator(FixedLocator(rates))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for place, arm in enumerate(study.arms):
        best = study.chosen[study.chosen["arm"] == arm].groupby(study.x)["lr"].first()
        # Moved aside and a little up or down, so that arms with equal rates do not hide each other.
        aside = place - (len(study.arms) - 1) / 2
        xs = [dodge(level, aside, study) for level in best.index]
        shift = (rates[-1] / rates[0]) ** (min(0.012, 0.15 / len(study.arms)) * -aside)
        axes.plot(xs, best * shift, marker=style.marker[arm], **style.line(arm))
        ends[arm] = best.iloc[-1] * shift
    scale_of_levels(axes, study)
    axes.set_ylabel("best learning rate")
    label_lines(axes, ends, style)


def draw_map(study: Study, style: Style, axes, rates: list[float]) -> None:
    """Runs that diverged, by arm and learning rate."""
    diverged = (study.summaries["status"] == "diverged").groupby(
        [study.summaries["arm"], study.summaries["lr"]]
    )
    share = diverged.mean().unstack().reindex(index=study.arms[::-1], columns=rates)
    axes.imshow(share, aspect="auto", cmap="Reds", vmin=0, vmax=1.4, origin="lower")
    counts = diverged.agg(["sum", "count"])
    for row, arm in enumerate(share.index):
        for column, rate in enumerate(rates):
            if (arm, rate) not in counts.index:
                axes.text(column, row, "no run", ha="center", va="center", fontsize=6, color=FAINT)
                continue
            bad, total = counts.loc[(arm, rate)]
            text = f"{bad}/{total}" if bad else "·"
            axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=INK)
    axes.set_xticks(np.arange(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(np.arange(len(share)), [shorten(arm) for arm in share.index])
    for tick, arm in zip(axes.get_yticklabels(), share.index, strict=True):
        tick.set(color=style.colour[arm], fontweight="bold")
    axes.grid(visible=False)
    axes.set_xlabel("learning rate")
    axes.set_title("diverged runs")
