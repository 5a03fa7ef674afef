"""A forest plot as SVG: the effect in each setting, their mean, and the paper's."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from markupsafe import Markup

from normexp.claims.pages.site.marks import dot, finite, number, segment, svg, text, told

WIDTH, ROW, LETTER, RIGHT, TICK = 560, 24, 7, 14, 34
NO_NAMES: Mapping[str, str] = MappingProxyType({})
CLASSES = {"supported": "for", "no counterexample": "for", "refuted": "against"}


class Line(NamedTuple):
    """A row of a forest plot. `end` holds the ends of the interval. `kind` is a class of the style sheet."""

    name: str
    effect: float
    ends: tuple[float, float]
    kind: str
    words: str


def lines_of(verdict: dict[str, Any], names: Mapping[str, str] = NO_NAMES) -> list[Line]:
    """A row per setting, the mean, and the paper's effect. A verdict from one setting has one effect.

    Args:
        names: of settings, for people.
    """
    lines = []
    for row in verdict["settings"]:
        name = names.get(row["name"], row["name"])
        if row["effect"] is None:
            lines.append(Line(name, math.nan, (math.nan, math.nan), "aside", row["flag"] or "no effect"))
            continue
        low, high = map(float, row["interval"])
        kind = CLASSES.get(row["verdict"], "open") if row["votes"] else "aside"
        lost = row["failures"]["arm"] + (row["failures"]["baseline"] or 0)
        words = f"{number(row['effect'])} [{number(low)}, {number(high)}], {row['pairs']} pairs"
        words += f", {lost} failed" if lost else ""
        name += f" ({row['flag']})" if row["flag"] else ""
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


def forest(verdict: dict[str, Any], names: Mapping[str, str] = NO_NAMES) -> Markup:
    """Effects with their intervals, one below the other. Effects that are too small to matter are shaded."""
    lines = lines_of(verdict, names)
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
    ticks = [value for value in (low + room, high - room) if abs(x(value) - x(0)) > TICK]
    parts += [text("tick", x(value), height - 12, number(value)) for value in (0.0, *ticks)]
    said = "; ".join(f"{line.name}: {line.words}" for line in lines)
    return svg(WIDTH, height, f"Forest plot. {said}", parts)


def _row(line: Line, y: float, x: Callable[[float], float], left: float) -> Markup:
    name = text("name", left - 10, y + 4, line.name)
    if math.isnan(line.effect):
        return name + text("note", left + 6, y + 4, line.words)
    low, high = (end if not math.isnan(end) else line.effect for end in line.ends)
    radius = 6 if "mean" in line.kind else 4
    marks = segment("bar", (x(low), y), (x(high), y)) + dot(x(line.effect), y, radius)
    return name + told(line.kind, f"{line.name}: {line.words}", marks)
