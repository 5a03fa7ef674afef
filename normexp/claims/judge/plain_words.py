"""The effect of a verdict as one would say it: `with batchnorm 2% higher than without a norm (11% lower to 18% higher);
more than 10% lower was asked`; and the paragraph around it for the screen and for reports."""

import math
import textwrap
from typing import Any

from normexp.claims.judge.comparison import EQUAL, PRACTICAL, TRENDS
from normexp.claims.judge.verdict import BEGUN
from normexp.claims.judge.verdict_text import counts, describe_question, named_effect, number, title
from normexp.format import pluralize

DOUBLE = math.log(2)  # from here on a ratio is told as a factor
WIDTH = 110  # of a paragraph in a file; a narrower screen has narrower lines
SHARES = ("share of", "accuracy", "validation accuracy", "test accuracy")  # so begin measures between 0 and 1


def paragraph(verdict: dict[str, Any], width: int = WIDTH) -> str:
    """The text for the screen, in lines of at most `width` letters: the sentence, its effect, what it rests on."""
    rests = verdict["means"] or ""
    if verdict["verdict"] == BEGUN:
        verdict = verdict | {"note": ""}
    elif verdict["settings"]:
        rests = f"{'. '.join(counts(verdict))}. {rests}"
    elif verdict["comparison"]["kind"] != "every":
        rests = f"{verdict['level']:.4g} interval, {verdict['method']}, {verdict['n_seeds']} seeds. {rests}"
    if verdict["note"]:
        rests = f"{rests.rstrip()} {verdict['note'][0].upper()}{verdict['note'][1:]}."
    lines = [f"{title(verdict, upper=True)}: {verdict['sentence']}", in_words(verdict), rests.strip()]
    if verdict["as_expected"] is False:
        lines.append(
            f"UNEXPECTED: mathematics says {verdict['expected']}; look for an error before you believe this."
        )
    if verdict.get("does_not_show"):
        lines.append(verdict["does_not_show"])
    lines.append(f"source: {verdict['source']}")
    return "\n".join(textwrap.fill(line, width, subsequent_indent="    ") for line in lines if line)


def section(verdict: dict[str, Any]) -> str:
    """A section of a report in Markdown, to stand beside `figure.png`."""
    figure = f"![{verdict['id']}](figure.png)\n\n" if verdict["verdict"] != BEGUN else ""
    return (
        f"## {title(verdict)}\n\n> {verdict['sentence']}\n\n{verdict['source']}\n\n"
        f"```\n{paragraph(verdict)}\n```\n\n{figure}`{verdict['command']}`\n"
    )


def in_words(verdict: dict[str, Any]) -> str:
    """The measure, the effect, and what was asked."""
    comparison, measure, settings = verdict["comparison"], verdict["measure"], verdict["settings"]
    if verdict.get("verdict") == BEGUN:
        return (
            f"{measure}: {asked(comparison, measure)}. Nothing is counted before all settings are finished."
        )
    ends = [float(end) for end in verdict["interval"] or (math.nan, math.nan)]
    if comparison["kind"] == "every":
        values = number(ends[0]) if ends[0] == ends[1] else f"from {number(ends[0])} to {number(ends[1])}"
        return f"{measure}: all values {values}; asked: {describe_question(comparison)}."
    if settings:
        each = verdict["comparisons"]
        named = [f"{named_effect(own['comparison'])}: " * (len(each) > 1) for own in each]
        named[1:] = [f"{name[:1].upper()}{name[1:]}" for name in named[1:]]
        each_told = [over_settings(own, measure, drawn=verdict["drawn"]) for own in each]
        return f"{measure}: {' '.join(name + one for name, one in zip(named, each_told, strict=True))}"
    told = stated(comparison, measure, float(verdict["effect"]), ends)
    return f"{measure}: {told}; {asked(comparison, measure)}."


def over_settings(own: dict[str, Any], measure: str, *, drawn: bool) -> str:
    """What was asked of the settings, how many are on each side, and for drawn ones the median."""
    comparison, margin = own["comparison"], own["comparison"].get("margin", 0.0)
    beyond, within, opposite = (own[side] for side in ("beyond", "within", "opposite"))
    sides = {"the other way": opposite, "none trained": own["failed"]}
    holds, rest = beyond, {"too little to matter": within} | sides
    if comparison["kind"] in EQUAL:
        holds, rest = within, {"higher": beyond, "lower": opposite, "none trained": own["failed"]}
    elif margin != PRACTICAL and margin < 0:
        rest = {"worse": within + opposite, "none trained": own["failed"]}
    parts = [f"so in {holds} of {pluralize(own['n'], 'setting')}"]
    parts += [f"{word} in {number_of}" for word, number_of in rest.items() if number_of]
    text = f"{asked(comparison, measure)}; {', '.join(parts)}."
    if not drawn or own["median"] is None:
        return text
    ends = [float(end) for end in own["median_interval"]]
    return f"{text} In the middle of the settings: {stated(comparison, measure, float(own['median']), ends)}."


def stated(comparison: dict[str, Any], measure: str, effect: float, ends: list[float]) -> str:
    """`with batchnorm 2% higher than without a norm (11% lower to 18% higher)`."""
    words = [difference(value, comparison, measure) for value in (*ends, effect)]
    arm, against = (arm_in_words(comparison.get(key, "")) for key in ("arm", "baseline"))
    arm += f" at {comparison['at']}" if "at" in comparison else ""
    if comparison["kind"] in TRENDS:
        words = [number(value) for value in (*ends, effect)]
        arm += (
            f", {comparison['over']} grows by one: change by"
            if "over" in comparison
            else ", change over the factor"
        )
        against = f" beside that {against}" if against else ""
    elif against:
        against = f" {'as' if words[2].endswith('as high') else 'than'} {against}"
        if words[0].split()[1:] == words[1].split()[1:]:  # both lower, or both higher
            words[0] = words[0].split()[0]
    else:
        words = [value_of(value, comparison) for value in (*ends, effect)]
    return f"{arm} {words[2]}{against}" + ("" if math.isnan(ends[0]) else f" ({words[0]} to {words[1]})")


def asked(comparison: dict[str, Any], measure: str) -> str:
    """`more than 10% lower was asked`."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    if kind in TRENDS:
        return f"{describe_question(comparison)} was asked"
    if margin == PRACTICAL:
        sides = {"smaller": "lower by enough to matter", "greater": "higher by enough to matter"}
        either = "no difference that matters" if kind in EQUAL else "a difference that matters"
        return f"{sides.get(kind, either)} in practice was asked"
    if "baseline" not in comparison:
        low, high = value_of(-margin, comparison), value_of(margin, comparison)
        bounds = {
            "greater": f"above {high}",
            "smaller": f"below {low}",
            "different": f"outside {low} to {high}",
        }
        return f"{bounds.get(kind, f'between {low} and {high}')} was asked"
    if kind in (*EQUAL, "different"):
        edge = difference(margin, comparison, measure).removesuffix(" higher")
        return f"{'no' if kind in EQUAL else 'a'} difference beyond {edge} was asked"
    bound = difference(-margin if kind == "smaller" else margin, comparison, measure)
    if not margin:
        return f"{'lower' if kind == 'smaller' else 'higher'} was asked"
    return f"{'more than' if margin > 0 else 'at most'} {bound} was asked"


def difference(value: float, comparison: dict[str, Any], measure: str) -> str:
    """`2% higher` of a ratio, `3 times as high` of a large one, `1.2 points lower` of a share."""
    way = "higher" if value > 0 else "lower"
    if comparison.get("log"):
        large = abs(value) >= DOUBLE
        return (
            f"{number(math.exp(value))} times as high"
            if large
            else f"{100 * abs(math.expm1(value)):.2g}% {way}"
        )
    if measure.startswith(SHARES):
        points = number(100 * abs(value))
        return f"{points} point{'s' * (points != '1')} {way}"
    return f"{number(abs(value))} {way}"


def value_of(effect: float, comparison: dict[str, Any]) -> str:
    """The value itself, of a comparison with a number: the effect is counted from that number."""
    target = comparison.get("target") or 0.0
    return number(math.exp(effect) * (target or 1.0) if comparison.get("log") else effect + target)


def arm_in_words(arm: str) -> str:
    """`with batchnorm`, `without a norm`."""
    return "without a norm" if arm == "none" else f"with {arm}" if arm else ""
