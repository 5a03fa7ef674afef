"""An effect in words: what its number means, its size as one would say it (`with batchnorm 2% higher than without a
norm (11% lower to 18% higher)`), and what is claimed (`claimed is more than 10% lower`)."""

import math
from typing import Any

from normexp.claims.judge.comparison import EQUAL, PRACTICAL, TRENDS

DOUBLE = math.log(2)  # from here on a ratio is told as a factor
SHARES = ("share of", "accuracy", "validation accuracy", "test accuracy")  # so begin measures between 0 and 1
MOST_BOUNDS = 8  # of a list that is told whole


def number(value: Any) -> str:
    """A number with three digits; JSON has infinities as text."""
    return f"{float(value):.3g}"


def ends(interval: Any, form: str = ".3g", scale: float = 1.0) -> str:
    """An interval behind its number: ` (-1.5 to 2)`; one that excludes no value is ` (no interval)`."""
    low, high = (scale * float(end) for end in interval)
    return " (no interval)" if math.isinf(low) and math.isinf(high) else f" ({low:{form}} to {high:{form}})"


def describe_effect(comparison: dict[str, Any]) -> str:
    """What the number of a verdict means."""
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else None)
    what = f"{comparison['arm']} minus {against}" if against else comparison["arm"]
    if comparison["kind"] in TRENDS:
        what = f"slope of {what}" + (f" over {comparison['over']}" if "over" in comparison else "")
    return f"{what}{' (logarithms)' if comparison.get('log') else ''}"


def named_effect(comparison: dict[str, Any]) -> str:
    """A comparison beside others of its claim."""
    return describe_effect(comparison) + (f" at {comparison['at']}" if "at" in comparison else "")


def describe_question(comparison: dict[str, Any]) -> str:
    """The comparison and its threshold, as fixed in the yaml."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    if kind == "every":
        bounds = {"at_most": "at most", "at_least": "at least", "equals": "equal to"}
        parts = [f"{text} {_bound(comparison[key])}" for key, text in bounds.items() if key in comparison]
        within = f" within {comparison['tolerance']:g}" if "tolerance" in comparison else ""
        return f"every value {' and '.join(parts)}{within}"
    size = "what matters in practice" if margin == PRACTICAL else f"{margin:g}"
    if kind == "flat" and "target" in comparison:
        return f"a slope of {comparison['target']:g} within {size}"
    if kind in EQUAL:
        return f"{'no slope' if kind == 'flat' else 'no difference'} beyond {size}"
    return f"{kind} by more than {size}"


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    if not isinstance(bound, list):
        return f"{bound:g}"
    rest = f", ... {len(bound)} in all" if len(bound) > MOST_BOUNDS else ""
    return "[" + ", ".join(f"{value:g}" for value in bound[: 3 if rest else None]) + rest + "]"


def compared(comparison: dict[str, Any]) -> str:
    """A comparison beside others of its claim, by its arms: `none compared with layernorm`."""
    against = comparison.get("baseline", comparison.get("target"))
    level = f" at {comparison['at']}" if "at" in comparison else ""
    return f"{comparison['arm']}{f' compared with {against}' if against is not None else ''}{level}"


def stated(comparison: dict[str, Any], measure: str, effect: Any, interval: Any) -> str:
    """`with batchnorm 2% higher than without a norm (11% lower to 18% higher)`."""
    values = [float(value) for value in (*(interval or (math.nan, math.nan)), effect)]
    if math.isnan(values[-1]):
        return "no number"
    arm, against = (arm_in_words(comparison.get(key, "")) for key in ("arm", "baseline"))
    arm += f" at {comparison['at']}" if "at" in comparison else ""
    trend = comparison["kind"] in TRENDS
    if trend and not per_step(comparison):
        words = list(map(number, values))
        over = f", {comparison['over']} grows by one: change by" if "over" in comparison else None
        arm += over or ", off that slope by"
        against = f" beside that {against}" if against else ""
    elif against or trend:
        words = [difference(value, comparison, measure) for value in values]
        against = f" {'as' if words[2].endswith('as high') else 'than'} {against}" if against else ""
        against = f"{per_step(comparison)}{against}" if trend else against
        if words[0].split()[1:] == words[1].split()[1:]:  # both lower, or both higher
            words[0] = words[0].split()[0]
    else:
        words = [value_in_words(value, comparison, measure) for value in values]
    middle = f"{arm} {words[2]}{against}"
    if all(map(math.isinf, values[:2])):  # as in `ends`
        return f"{middle} (no interval)"
    return middle if math.isnan(values[0]) else f"{middle} ({words[0]} to {words[1]})"


def threshold_in_words(comparison: dict[str, Any], measure: str) -> str:
    """`claimed is more than 10% lower`."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    sides: dict[str, str]
    step, below = per_step(comparison) if kind in TRENDS else "", kind in ("smaller", "decreasing")
    if kind in TRENDS and not step:
        words = describe_question(comparison)
    elif margin == PRACTICAL:
        sides = {"smaller": "lower by enough to matter", "greater": "higher by enough to matter"}
        either = "no difference that matters" if kind in EQUAL else "a difference that matters"
        words = f"{sides.get(kind, either)} in practice"
    elif "baseline" not in comparison and not step:
        low, high = (value_in_words(edge, comparison, measure) for edge in (-margin, margin))
        sides = {
            "greater": f"above {high}",
            "smaller": f"below {low}",
            "different": f"outside {low} to {high}",
        }
        words = sides.get(kind, f"between {low} and {high}")
    elif kind in (*EQUAL, "different"):
        edge = difference(margin, comparison, measure).removesuffix(" higher")
        words = f"{'no' if kind in EQUAL else 'a'} {'change' if step else 'difference'} beyond {edge}{step}"
    elif not margin:
        words = f"{'lower' if below else 'higher'}{step}"
    else:
        bound = difference(-margin if below else margin, comparison, measure)
        words = f"{'more than' if margin > 0 else 'at most'} {bound}{step}"
    return f"claimed is {words}"


def per_step(comparison: dict[str, Any]) -> str:
    """Over what a slope is a difference, ` for each doubling`; empty where it is compared with a number or taken over
    another arm, and told as it is."""
    if comparison.get("target") or "over" in comparison:
        return ""
    return " for each doubling" if comparison.get("log2_factor") else " for each step of the factor"


def difference(value: float, comparison: dict[str, Any], measure: str) -> str:
    """`2% higher` of a ratio, `3 times as high` of a large one, `1.2 points lower` of a share."""
    way = "higher" if value > 0 else "lower"
    if comparison.get("log"):
        ratio = f"{number(math.exp(value))} times as high"
        return ratio if abs(value) >= DOUBLE else f"{100 * abs(math.expm1(value)):.2g}% {way}"
    if measure.startswith(SHARES):
        points = f"{100 * abs(value):.2g}"
        return f"{points} point{'s' * (points != '1')} {way}"
    return f"{number(abs(value))} {way}"


def value_in_words(effect: float, comparison: dict[str, Any], measure: str) -> str:
    """The value itself, of a comparison with a number: the effect is counted from that number."""
    target = comparison.get("target") or 0.0
    value = math.exp(effect) * (target or 1.0) if comparison.get("log") else effect + target
    return f"{number(100 * value)}%" if measure.startswith(SHARES) else number(value)


def arm_in_words(arm: str) -> str:
    """`with batchnorm`, `without a norm`."""
    return who(arm) if arm in ("", "none") else f"with {arm}"


def who(arm: str) -> str:
    """An arm before a count of it: "none in 5" would say that there are none."""
    return "without a norm" if arm == "none" else arm
