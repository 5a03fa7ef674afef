"""Small drawings as SVG, made from the numbers: a forest plot, and accuracy over the learning rate.

They are part of the page, so their colors follow it, and each mark shows its values.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from normexp.report.style import FREE, OWN

WIDTH, ROW, LETTER, RIGHT = 560, 24, 7, 14
CLASSES = {"supported": "for", "no counterexample": "for", "refuted": "against"}


class Line(NamedTuple):
    """A row of a forest plot. `end` holds the ends of the interval. `kind` is a class of the style sheet."""

    name: str
    effect: float
    ends: tuple[float, float]
    kind: str
    words: str


def finite(*values: float) -> list[float]:
    """The finite values."""
    return [value for value in values if math.isfinite(value)]


def number(value: float) -> str:
    """Three digits, with a minus that is as wide as a plus."""
    return f"{value:.3g}".replace("-", "−")


def lines_of(verdict: dict[str, Any]) -> list[Line]:
    """A row per setting, the mean, and the paper's effect. A verdict from one setting has one effect."""
    lines = []
    for row in verdict["settings"]:
        if row["effect"] is None:
            lines.append(
                Line(row["name"], math.nan, (math.nan, math.nan), "aside", row["flag"] or "no effect")
            )
            continue
        low, high = map(float, row["interval"])
        kind = CLASSES.get(row["verdict"], "open") if row["votes"] else "aside"
        lost = row["failures"]["arm"] + (row["failures"]["baseline"] or 0)
        words = f"{number(row['effect'])} [{number(low)}, {number(high)}], {row['pairs']} pairs"
        words += f", {lost} failed" if lost else ""
        name = row["name"] + (f" ({row['flag']})" if row["flag"] else "")
        lines.append(Line(name, float(row["effect"]), (low, high), kind, words))
    low, high = map(float, verdict["interval"])
    effect = float(verdict["effect"])
    name = "mean over settings" if lines else "this setting"
    kind = f"mean {CLASSES.get(verdict['verdict'], 'open')}"
    lines.append(Line(name, effect, (low, high), kind, f"{number(effect)} [{number(low)}, {number(high)}]"))
    paper = verdict.get("paper_effect") or {}
    if paper.get("effect") is not None:
        size = float(paper["effect"])
        words = f"{paper['value']}, {paper['where']}, {paper['size']}"
        lines.append(Line("the paper", size, (size, size), "paper", words))
    return lines


def forest(verdict: dict[str, Any]) -> Markup:
    """Effects with their intervals, one below the other. Effects that are too small to matter are shaded."""
    lines = lines_of(verdict)
    margin = float((verdict.get("comparison") or {}).get("margin") or 0.0)
    centers = finite(*(line.effect for line in lines), -margin, margin, 0.0)
    ends = finite(*(end for line in lines if line.kind.startswith("mean") for end in line.ends))
    low, high = min(centers + ends), max(centers + ends)
    room = 0.18 * (high - low) or 1.0
    low, high = low - room, high + room  # wide intervals of single settings must not squeeze the others

    left = 16 + LETTER * max(len(line.name) for line in lines)

    def x(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return left + share * (WIDTH - left - RIGHT)

    height = ROW * len(lines) + 34
    shade = Markup('<rect class="margin" x="{0:.1f}" y="0" width="{1:.1f}" height="{2}"/>')
    parts = [
        shade.format(x(-margin), x(margin) - x(-margin), height - 30),
        segment("zero", (x(0), 0), (x(0), height - 30)),
    ]
    parts += [_row(line, ROW * index + ROW / 2, x, left) for index, line in enumerate(lines)]
    parts += [text("tick", x(value), height - 12, number(value)) for value in (low + room, 0.0, high - room)]
    said = "; ".join(f"{line.name}: {line.words}" for line in lines)
    return _svg(WIDTH, height, f"Forest plot. {said}", parts)


def _row(line: Line, y: float, x: Callable[[float], float], left: float) -> Markup:
    name = text("name", left - 10, y + 4, line.name)
    if math.isnan(line.effect):
        return name + text("note", left + 6, y + 4, line.words)
    low, high = (end if not math.isnan(end) else line.effect for end in line.ends)
    radius = 6 if "mean" in line.kind else 4
    marks = segment("bar", (x(low), y), (x(high), y)) + dot(x(line.effect), y, radius)
    return name + told(line.kind, f"{line.name}: {line.words}", marks)


def over_rate(runs: pd.DataFrame, title: str) -> Markup:
    """Mean test accuracy over seeds against the learning rate, one line per norm. A cross marks diverged runs."""
    rates = sorted(runs["lr"].unique())
    left, top, width, height = 46, 18, 320, 190

    def x(rate: float) -> float:
        span = math.log(rates[-1] / rates[0]) or 1.0
        return left + math.log(rate / rates[0]) / span * (width - left - 16)

    def y(value: float) -> float:
        return top + (1 - value) * (height - top - 34)

    parts = [text("title", left, 11, title)]
    for level in (0, 0.5, 1):
        parts.append(segment("level", (left, y(level)), (width - 16, y(level))))
        parts.append(text("end", left - 5, y(level) + 4, f"{level:.0%}"))
    ticks = (rates[0], rates[len(rates) // 2], rates[-1])
    parts += [text("tick", x(rate), height - 18, f"{rate:g}") for rate in ticks]
    parts.append(text("tick", (left + width) / 2, height - 4, "learning rate"))
    for place, norm in enumerate(dict.fromkeys(runs["norm"])):
        own = runs[runs["norm"] == norm]
        done = own[own["status"] == "completed"].groupby("lr")["test_accuracy"].mean()
        points = " ".join(f"{x(rate):.1f},{y(value):.1f}" for rate, value in done.items())
        thick = 3.4 - 0.5 * min(place, 4)  # the first line lies below and shows under the others
        line = Markup('<polyline points="{0}" style="stroke-width: {1:.1f}"/>').format(points, thick)
        marks = [told("", f"{norm}, rate {rate:g}: {value:.1%}", dot(x(rate), y(value), 3), tab=False)
                 for rate, value in done.items()]  # fmt: skip
        lost = own[own["status"] == "diverged"]["lr"].unique()
        marks += [text("tick lost", x(rate), y(0) - 3 - 7 * place, "×") for rate in lost]
        words = "; ".join(f"{rate:g}: {value:.1%}" for rate, value in done.items())
        words += "".join(f"; {rate:g}: diverged" for rate in lost)
        color = color_of(norm, place)
        parts.append(
            told(
                "curve",
                f"{norm}: {words}",
                line + Markup("").join(marks),
                f"color: var(--c-{color}, #{color})",
            )
        )
    return _svg(width, height, f"Test accuracy over learning rate, {title}", parts)


def text(kind: str, x: float, y: float, words: str) -> Markup:
    """Words at a place; `kind` is a class of the style sheet."""
    return Markup('<text class="{0}" x="{1:.1f}" y="{2:.1f}">{3}</text>').format(kind, x, y, words)


def segment(kind: str, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    """A straight line."""
    return Markup('<line class="{0}" x1="{1:.1f}" y1="{2:.1f}" x2="{3:.1f}" y2="{4:.1f}"/>').format(
        kind, *start, *end
    )


def dot(x: float, y: float, radius: float) -> Markup:
    """A filled circle."""
    return Markup('<circle cx="{0:.1f}" cy="{1:.1f}" r="{2}"/>').format(x, y, radius)


def told(kind: str, words: str, marks: Markup, style: str = "", *, tab: bool = True) -> Markup:
    """Marks with their values, for the mouse, and for the keyboard and screen readers unless `tab` is off."""
    if not tab:
        return Markup("<g><title>{0}</title>{1}</g>").format(words, marks)
    group = Markup(
        '<g class="{0}" style="{1}" tabindex="0" role="img" aria-label="{2}"><title>{2}</title>{3}</g>'
    )
    return group.format(kind, style, words, marks)


def color_of(norm: str, place: int) -> str:
    """The color of a norm, as six digits."""
    return OWN.get(norm, FREE[place % len(FREE)]).lower().lstrip("#")


def _svg(width: float, height: float, title: str, parts: Sequence[Markup]) -> Markup:
    inside = Markup("\n").join(parts)
    return Markup(
        '<svg viewBox="0 0 {0} {1}" style="width: {0}px" role="group" aria-label="{2}">{3}</svg>'
    ).format(width, height, title, inside)
