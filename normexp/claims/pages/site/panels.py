"""Panels as SVG, one per setting with a line per arm: accuracy over the learning rate, and learning curves.

They are part of the page, so their colors follow it, and each mark shows its values.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd
from markupsafe import Markup

from normexp.claims.pages.site.marks import dot, segment, svg, text, told

LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 46, 18, 320, 190, 16, 34
COARSE = 0.1  # the ends of an axis of accuracy are multiples of it
Point = tuple[float, float]


def over_rate(runs: pd.DataFrame, title: str, colors: Mapping[str, str]) -> Markup:
    """Mean test accuracy over seeds against the learning rate, one line per arm. A cross marks diverged runs."""
    rates = sorted(runs["lr"].unique())
    span = math.log(rates[-1] / rates[0]) or 1.0
    y = upward(0.0, 1.0)

    def x(rate: float) -> float:
        return across(math.log(rate / rates[0]) / span)

    parts = frame(title, y, (0.0, 0.5, 1.0), "learning rate")
    parts += [tick(x(rate), f"{rate:.3g}") for rate in (rates[0], rates[len(rates) // 2], rates[-1])]
    for place, arm in enumerate(dict.fromkeys(runs["norm"])):
        own = runs[runs["norm"] == arm]
        done = own[own["status"] == "completed"].groupby("lr")["test_accuracy"].mean()
        points = [((x(rate), y(value)), f"rate {rate:g}: {value:.1%}") for rate, value in done.items()]
        lost = own[own["status"] == "diverged"]["lr"].unique()
        crosses = Markup("").join(text("tick lost", x(rate), y(0) - 3 - 7 * place, "×") for rate in lost)
        said = [f"rate {rate:g}: diverged" for rate in lost]
        parts.append(curve(arm, points, place, colors[arm], crosses, said))
    return svg(WIDTH, HEIGHT, f"Test accuracy over learning rate, {title}", parts)


def learning(means: pd.DataFrame, title: str, colors: Mapping[str, str]) -> Markup:
    """Validation accuracy during training: the mean over seeds with its 95% interval as a band, one line per arm.

    Args:
        means: columns arm, epoch, mean, low, high.
    """
    bottom, top = ends(means["mean"].min(), means["mean"].max())
    last, y = means["epoch"].max(), upward(bottom, top)
    parts = frame(title, y, (bottom, (bottom + top) / 2, top), "epochs")
    parts += [tick(across(epoch / last), f"{epoch:.3g}") for epoch in (0.0, last / 2, last)]
    lines = []
    for place, (arm, own) in enumerate(means.groupby("arm", sort=False)):
        x = [across(epoch / last) for epoch in own["epoch"]]
        band = own[["low", "high"]].clip(bottom, top).map(y)
        parts.append(shade(list(zip(x, band["low"], band["high"], strict=True)), colors[str(arm)]))
        words = [f"epoch {e:.3g}: {value:.1%}" for e, value in zip(own["epoch"], own["mean"], strict=True)]
        points = list(zip(zip(x, own["mean"].map(y), strict=True), words, strict=True))
        lines.append(curve(str(arm), points, place, colors[str(arm)]))
    return svg(WIDTH, HEIGHT, f"Validation accuracy during training, {title}", parts + lines)


def ends(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis of accuracy that has room for these values."""
    bottom = math.floor(round(low / COARSE, 6)) * COARSE
    top = math.ceil(round(high / COARSE, 6)) * COARSE
    return (bottom, top) if top > bottom else (bottom, bottom + COARSE) if bottom < 1 else (1 - COARSE, 1.0)


def across(share: float) -> float:
    """The x of a share of the width."""
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def upward(bottom: float, top: float) -> Callable[[float], float]:
    """The y of a value between the ends of its axis."""
    return lambda value: TOP + (top - value) / (top - bottom) * (HEIGHT - TOP - BOTTOM)


def frame(title: str, y: Callable[[float], float], levels: Iterable[float], words: str) -> list[Markup]:
    """Title, horizontal lines with their percentages, and the name of the x axis."""
    parts = [text("title", LEFT, 11, title), text("tick", (LEFT + WIDTH) / 2, HEIGHT - 4, words)]
    for level in levels:
        parts.append(segment("level", (LEFT, y(level)), (WIDTH - RIGHT, y(level))))
        parts.append(text("end", LEFT - 5, y(level) + 4, f"{level:.0%}"))
    return parts


def tick(x: float, words: str) -> Markup:
    """A number below the x axis."""
    return text("tick", x, HEIGHT - 18, words)


def curve(
    arm: str,
    points: Sequence[tuple[Point, str]],
    place: int,
    color: str,
    more: str = "",
    said: Sequence[str] = (),
) -> Markup:
    """The line of an arm with a dot at each point, which tells its words. The first line lies below and is thicker, so
    it shows under the others."""
    thick = 3.4 - 0.5 * min(place, 4)
    places = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _ in points)
    line = Markup('<polyline points="{0}" style="stroke-width: {1:.1f}"/>').format(places, thick)
    dots = Markup("").join(told("", f"{arm}, {words}", dot(*at, 3), tab=False) for at, words in points)
    told_all = "; ".join([*(words for _, words in points), *said])
    return told("curve", f"{arm}: {told_all}", line + dots + more, colored(color))


def shade(ends: Sequence[tuple[float, float, float]], color: str) -> Markup:
    """The area between the ends of intervals: (x, y of the low end, y of the high end). None where they are unknown."""
    known = [(x, low, high) for x, low, high in ends if not math.isnan(low + high)]
    around = [(x, low) for x, low, _ in known] + [(x, high) for x, _, high in reversed(known)]
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in around)
    return Markup('<polygon class="band" points="{0}" style="{1}"/>').format(places, colored(color))


def colored(color: str) -> str:
    """The color of an arm as a style, which follows a dark page."""
    return f"color: var(--c-{color}, #{color})"
