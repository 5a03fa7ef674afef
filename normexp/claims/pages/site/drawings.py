"""Drawings of a claim's page: a forest plot, and panels, one per setting with a line per arm.

They are drawn for a phone by the functions of reports, so their colors follow the page, and each mark shows its values
to the mouse, the keyboard and screen readers.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from normexp.claims.pages.figure import draw_forest, lines_of, places_of
from normexp.report import page
from normexp.report.drawing import Drawing, draw_line, narrow, narrow_all, new_figure, panels, room, tell
from normexp.report.style import draw_curves, drawing_style, percent, plain_ticks

FOLDERS = [Path(__file__).parent, Path(__file__).parents[3] / "report"]
ENVIRONMENT = page.ENVIRONMENT.overlay(loader=jinja2.FileSystemLoader(FOLDERS))
ENVIRONMENT.filters["code"] = lambda text: Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))
LETTERS = 34  # of a panel's title; half a phone has room for them


def forest(
    verdict: dict[str, Any], names: Mapping[str, str] | None = None, better: str | None = None
) -> Markup:
    """Effects with their intervals, one below the other. Effects that are too small to matter are shaded."""
    lines = lines_of(verdict, names)
    with drawing_style(), narrow():
        places, heights = places_of(lines)
        figure, (axes,) = new_figure(1, panel=(room().width, 1.1 + 0.22 * sum(heights)))
        draw_forest(axes, lines, verdict, better)
        for y, line in zip(places, lines, strict=True):
            if line.effect == line.effect:
                tell(axes, [line.effect], [y], line.name, [line.words])
        return _inline("forest", "Forest plot", figure)


def over_rate(runs: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> Markup:
    """Test accuracy over seeds against the learning rate, a panel per setting. A cross marks diverged runs."""
    with drawing_style(), narrow():
        figure, shown = panels(list(runs), "learning rate", "test accuracy", height=2.0)
        for name, axes in shown.items():
            setting_runs, rates = runs[name], sorted(runs[name]["lr"].unique())
            for arm, rows in setting_runs.groupby("norm", sort=False):
                color = f"#{colors[str(arm)]}"
                done = rows[rows["status"] == "completed"].groupby("lr")["test_accuracy"].mean()
                lost = sorted(rows[rows["status"] == "diverged"]["lr"].unique())
                words = [f"rate {rate:g}: {value:.1%}" for rate, value in done.items()]
                draw_line(axes, done.index, done, f"{arm}", words, color=color, marker=".")
                if lost:
                    words = [f"rate {rate:g}: diverged" for rate in lost]
                    look = {"color": color, "marker": "x", "linestyle": "", "clip_on": False}
                    draw_line(axes, lost, [0.0] * len(lost), f"{arm}", words, in_layout=False, **look)
            axes.set_xscale("log")
            plain_ticks(axes.xaxis, rates[:: max(len(rates) // 2, 1)], ".2g")
            axes.set_ylim(0, 1)
            _finish(axes, name)
        return _inline("rates", "Test accuracy over learning rate", figure)


def learning(means: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> Markup:
    """Validation accuracy during training: the mean over seeds with its 95% interval as a band, a panel per setting.

    Args:
        means: setting -> columns arm, epoch, mean, low, high.
    """
    with drawing_style(), narrow():
        figure, shown = panels(list(means), "epochs", "validation accuracy", height=2.0)
        for name, axes in shown.items():
            curve = means[name].astype(dict.fromkeys(("epoch", "mean", "low", "high"), float))
            point = "epoch {x:.3g}: {y:.1%}"
            draw_curves(axes, lambda arm: {"color": f"#{colors[arm]}"}, curve, "epoch", point, alone=".")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=bool(curve["epoch"].max() > 3)))
            _finish(axes, name)
        return _inline("learning", "Validation accuracy during training", figure)


def _finish(axes: Any, name: str) -> None:
    axes.set_title(name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…", fontsize=7.5)
    percent(axes.yaxis)


def _inline(name: str, title: str, figure: Figure) -> Markup:
    return narrow_all([Drawing(name, title, "", figure)])[name]
