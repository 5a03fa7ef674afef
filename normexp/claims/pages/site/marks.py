"""The parts of a drawing as SVG: words, lines, dots, and groups that tell their values."""

import math
from collections.abc import Sequence

from markupsafe import Markup


def finite(*values: float) -> list[float]:
    """The finite values."""
    return [value for value in values if math.isfinite(value)]


def number(value: float) -> str:
    """Three digits, with a minus that is as wide as a plus."""
    return f"{value:.3g}".replace("-", "−").replace("inf", "∞")


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


def svg(width: float, height: float, title: str, parts: Sequence[Markup]) -> Markup:
    """A drawing of its parts; `title` is what a screen reader says."""
    inside = Markup("\n").join(parts)
    return Markup(
        '<svg viewBox="0 0 {0} {1}" style="width: {0}px" role="group" aria-label="{2}">{3}</svg>'
    ).format(width, height, title, inside)
