"""Drawings of a claim's page as SVG: a forest plot, and panels, one per setting with a line per arm.

They are part of the page, so their colors follow it, and each mark shows its values to the mouse, the keyboard and
screen readers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from normexp.claims.pages.figure import limits, lines_of, number

FOREST_WIDTH, ROW, LETTER, FOREST_RIGHT, TICK = 560, 24, 7, 14, 34
LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 46, 18, 320, 190, 16, 34
COARSE = 0.1  # the ends of an axis of accuracy are multiples of it
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader([Path(__file__).parent, Path(__file__).parents[3] / "report"]),
    autoescape=True, trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
ENVIRONMENT.filters["at"] = lambda value: f"{value:.1f}"


def _drawn(template: str, **values: Any) -> Markup:
    return Markup(ENVIRONMENT.get_template(template).render(**values))


def forest(verdict: dict[str, Any], names: Mapping[str, str] | None = None) -> Markup:
    """Effects with their intervals, one below the other. Effects that are too small to matter are shaded."""
    lines = lines_of(verdict, names)
    low, high = limits(lines)
    room = 0.18 * (high - low) or 1.0
    left = 16 + LETTER * max(len(line.name) for line in lines)

    def x(value: float) -> float:
        share = (min(max(value, low - room), high + room) - low + room) / (high - low + 2 * room)
        return left + share * (FOREST_WIDTH - left - FOREST_RIGHT)

    # An end that is not a number is where the effect is.
    lines = [
        line._replace(ends=(finite(line.ends[0], line.effect), finite(line.ends[1], line.effect)))
        for line in lines
    ]
    ticks = [0.0, *(value for value in (low, high) if abs(x(value) - x(0)) > TICK)]
    return _drawn(
        "forest.svg.j2", lines=lines, x=x, margin=lines[0].margin, ticks=ticks, left=left, number=number,
        width=FOREST_WIDTH, height=ROW * len(lines) + 34, row=ROW,
    )  # fmt: skip


def finite(end: float, otherwise: float) -> float:
    """The end of an interval; `otherwise` if it is not a number."""
    return otherwise if math.isnan(end) else end


def over_rate(runs: pd.DataFrame, title: str, colors: Mapping[str, str]) -> Markup:
    """Mean test accuracy over seeds against the learning rate, one line per arm. A cross marks diverged runs."""
    rates, curves = sorted(runs["lr"].unique()), []
    span = math.log(rates[-1] / rates[0]) or 1.0
    for arm, own in runs.groupby("norm", sort=False):
        done = own[own["status"] == "completed"].groupby("lr")["test_accuracy"].mean()
        points = [
            (float(rate), value, f"rate {rate:g}: {value:.1%}")
            for rate, value in zip(done.index, done, strict=True)
        ]
        lost = own[own["status"] == "diverged"]["lr"].unique()
        curves.append(
            _curve(arm, points, colors, [f"rate {rate:g}: diverged" for rate in lost]) | {"lost": lost}
        )
    return _panel(
        "Test accuracy over learning rate", title, "learning rate", curves,
        x=lambda rate: math.log(rate / rates[0]) / span, ends=(0.0, 1.0),
        ticks=(rates[0], rates[len(rates) // 2], rates[-1]),
    )  # fmt: skip


def learning(means: pd.DataFrame, title: str, colors: Mapping[str, str]) -> Markup:
    """Validation accuracy during training: the mean over seeds with its 95% interval as a band, one line per arm.

    Args:
        means: columns arm, epoch, mean, low, high.
    """
    bottom, top = ends(means["mean"].min(), means["mean"].max())
    last, y, curves = means["epoch"].max(), _upward(bottom, top), []
    for arm, own in means.groupby("arm", sort=False):
        points = [
            (e, value, f"epoch {e:.3g}: {value:.1%}")
            for e, value in zip(own["epoch"], own["mean"], strict=True)
        ]
        known = own.dropna(subset=["low", "high"])
        around = [*zip(known["epoch"], known["low"].clip(bottom, top), strict=True)]
        around += [*zip(known["epoch"], known["high"].clip(bottom, top), strict=True)][::-1]
        band = " ".join(f"{_across(epoch / last):.1f},{y(end):.1f}" for epoch, end in around)
        curves.append(_curve(arm, points, colors) | {"band": band})
    return _panel(
        "Validation accuracy during training", title, "epochs", curves,
        x=lambda epoch: epoch / last, ends=(bottom, top), ticks=(0.0, last / 2, last),
    )  # fmt: skip


def _curve(
    arm: Any, points: list[tuple[float, float, str]], colors: Mapping[str, str], more: Sequence[str] = ()
) -> dict[str, Any]:
    words = [*(words for _, _, words in points), *more]
    return {"arm": arm, "points": points, "words": words, "color": colors[arm]}


def _panel(
    what: str,
    title: str,
    axis: str,
    curves: list[dict[str, Any]],
    *,
    x: Callable[[float], float],
    ends: tuple[float, float],
    ticks: Sequence[float],
) -> Markup:
    """Lines in a frame; `x` gives the share of the width."""
    return _drawn(
        "panel.svg.j2", what=what, title=title, axis=axis, curves=curves, ticks=ticks, width=WIDTH, height=HEIGHT,
        left=LEFT, right=WIDTH - RIGHT, levels=(ends[0], sum(ends) / 2, ends[1]), y=_upward(*ends),
        x=lambda value: _across(x(value)),
    )  # fmt: skip


def ends(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis of accuracy that has room for these values."""
    bottom = math.floor(round(low / COARSE, 6)) * COARSE
    top = math.ceil(round(high / COARSE, 6)) * COARSE
    return (bottom, top) if top > bottom else (bottom, bottom + COARSE) if bottom < 1 else (1 - COARSE, 1.0)


def _across(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _upward(bottom: float, top: float) -> Callable[[float], float]:
    """The y of a value between the ends of its axis."""
    return lambda value: TOP + (top - value) / (top - bottom) * (HEIGHT - TOP - BOTTOM)
