"""Numbers, effects and questions in the unit of their measure: points, steps, percent, or a factor."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from normexp.claims.judge.comparison import Comparison
from normexp.format import pluralize

DOUBLE = math.log(2)  # from here on a ratio is told as a factor
SHARES = ("share of", "accuracy", "validation accuracy", "test accuracy")  # so begin measures between 0 and 1
STEPS = ("steps", "optimizer steps")
MOST_BOUNDS = 8  # of a list that is told whole


def number(value: Any) -> str:
    """A number with three digits; JSON has infinities as text."""
    return f"{float(value):.3g}"


def ends(interval: Any, form: str = ".3g") -> str:
    """An interval behind its number: ` (-1.5 to 2)`; one that excludes no value is ` (no interval)`."""
    low, high = map(float, interval)
    return " (no interval)" if math.isinf(low) and math.isinf(high) else f" ({low:{form}} to {high:{form}})"


def capital(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def effect_name(comparison: Comparison) -> str:
    """What the number of a comparison means, which also tells it from others of its claim."""
    slope = comparison.rule.slope
    what = f"slope of {comparison.arm}" if slope else comparison.arm or "every arm"
    if comparison.baseline:
        what += f" against {'that of ' if slope else ''}{comparison.baseline}"
    elif comparison.target:
        what += f" against {comparison.target:g}"
    return what if comparison.at is None else f"{what} at {comparison.at}"


def holds_in(comparison: Comparison) -> str:
    """What is counted, in words."""
    if comparison.size < 0:
        return "no worse than the margin"
    return f"{'within' if comparison.rule.within else 'beyond'} the margin"


def never_reached(unreached: Mapping[str, int]) -> str:
    """Which runs never reached the target, and what that means."""
    arms = " and ".join(f"{pluralize(n, 'run')} of {arm}" for arm, n in unreached.items())
    return f"{arms} never reached the target, so all their steps are a lower bound"


class Difference(NamedTuple):
    """The words of a difference: `2%`, `higher` of a ratio, `3`, `times as high` of a large one, `1.2`, `lower`,
    `points` of a share."""

    size: str
    way: str
    unit: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.size, self.unit, self.way)))


def _hundredths(value: float) -> str:
    """The size of a share in percent, with two digits; 100 and more whole."""
    size = 100 * abs(value)
    return f"{size:.0f}" if size >= 99.5 else f"{size:.2g}"


def difference(value: float, comparison: Comparison, measure: str) -> Difference:
    """A difference as its measure counts it."""
    way = "higher" if value > 0 else "lower"
    if comparison.log:
        if abs(value) >= DOUBLE:
            return Difference(number(math.exp(value)), "times as high")
        return Difference(f"{_hundredths(math.expm1(value))}%", way)
    if measure.startswith(SHARES):
        points = _hundredths(value)
        return Difference(points, way, "point" if points == "1" else "points")
    if measure.startswith(STEPS):
        return Difference(number(abs(value)), "more" if value > 0 else "fewer", "steps")
    return Difference(number(abs(value)), way)


def stated(comparison: Comparison, measure: str, effect: Any, interval: Any) -> str:
    """`batchnorm 2% higher than none (11% lower to 18% higher)`; of a slope or a value its number."""
    value, low, high = map(float, (effect, *interval))
    if math.isnan(value):
        return "no number"
    if comparison.log and comparison.target and not comparison.rule.slope:
        # The value itself, not its logarithm.
        value, low, high = (comparison.target * math.exp(end) for end in (value, low, high))
        return f"{comparison.arm} {number(value)}{ends((low, high))}"
    if comparison.rule.slope or not comparison.baseline:
        logarithms = " (logarithms)" if comparison.log else ""
        return f"{effect_name(comparison)}{logarithms}: {number(value)}{ends((low, high))}"
    middle, first, last = (difference(end, comparison, measure) for end in (value, low, high))
    arm = comparison.arm if comparison.at is None else f"{comparison.arm} at {comparison.at}"
    text = f"{arm} {middle} {'as' if middle.way.startswith('times') else 'than'} {comparison.baseline}"
    if not math.isfinite(low):
        return f"{text} (no interval)"
    return f"{text} ({first.size if first[1:] == last[1:] else first} to {last})"


def worse(comparison: Comparison, measure: str) -> str:
    """How much worse a margin below 0 allows: `2 points worse`, of a ratio also `2 times as high`."""
    if comparison.rule.slope or not (comparison.baseline or comparison.log):
        return f"{number(-comparison.size)} worse"
    size = difference(comparison.rule.sign * comparison.size, comparison, measure)
    return str(size if size.way.startswith("times") else size._replace(way="worse"))


def question(comparison: Comparison, measure: str) -> str:
    """What is claimed, as fixed in the yaml: `more than 10% lower`."""
    if comparison.rule.universal:
        return f"every value {bounds(comparison)}"

    def in_words(value: float, /, *, way: bool = True) -> str:
        size = difference(value, comparison, measure)
        return str(size if way or size.way.startswith("times") else size._replace(way=""))

    return comparison.rule.question(comparison, in_words)


def bounds(comparison: Comparison, arm: str | None = None) -> str:
    """The bounds of a universal sentence, or those of one arm: `at least 0.1`."""
    parts = []
    for key, bound in comparison.bounds.items():
        limit = bound[arm] if arm is not None and isinstance(bound, dict) else bound
        parts.append(f"{'equal to' if key == 'equals' else key.replace('_', ' ')} {_bound(limit)}")
    within = f" within {comparison.tolerance:g}" if comparison.tolerance else ""
    return " and ".join(parts) + within


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    if not isinstance(bound, list):
        return f"{bound:g}"
    rest = f", ... {len(bound)} in all" if len(bound) > MOST_BOUNDS else ""
    return "[" + ", ".join(f"{value:g}" for value in bound[: 3 if rest else None]) + rest + "]"
