"""A verdict in words: its title, its counts, its effect as one would say it (`with batchnorm 2% higher than without a
norm (11% lower to 18% higher); more than 10% lower was asked`), and the paragraph for the screen and for reports."""

import math
import textwrap
from typing import Any

from normexp.claims.judge.comparison import EQUAL, PRACTICAL, TRENDS
from normexp.claims.judge.estimate import ends, number
from normexp.claims.judge.verdict import BEGUN, COUNTED, NOT_SEEN, SEEN, every_one_of
from normexp.format import pluralize


def counts(verdict: dict[str, Any], *, sides: bool = True) -> list[str]:
    """The counts of each comparison over settings; of several, after the settings in which all of them hold. Without
    `sides` behind words that give them (`in_words`)."""
    drawn, each = verdict["drawn"], verdict["comparisons"]
    if len(each) == 1:
        return list(filter(None, [_counts(each[0], drawn=drawn, alone=True, sides=sides)]))
    share = f": share {verdict['share']:.2f}{ends(verdict['share_interval'])}" if drawn else ""
    told = [(own["comparison"], _counts(own, drawn=drawn, alone=False, sides=sides)) for own in each]
    named = [f"{named_effect(comparison)}: {text}" for comparison, text in told if text]
    return [f"{every_one_of(len(each))} hold in {verdict['holds']} of {verdict['n']}{share}", *named]


def _counts(own: dict[str, Any], *, drawn: bool, alone: bool, sides: bool) -> str:
    """The counts of a comparison, its failures, and for drawn settings the median; `alone` with its share and with the
    median on the other scale."""
    parts = []
    if sides:
        parts += [f"beyond {own['beyond']}, within {own['within']}, opposite {own['opposite']} of {own['n']}"]
        parts += [f"no number {own['failed']}"] * bool(own["failed"])
    if drawn:
        if alone:
            parts.append(f"share {own['share']:.2f}{ends(own['share_interval'])}")
        beside = "as a difference" if own["comparison"].get("log") else "as a log ratio"
        for name, what in (("", "median"), ("points_", beside)):
            if own[f"{name}median"] is not None and (alone or not name):
                middle = " to ".join(map(number, own[f"{name}middle"]))
                median = f"{number(own[f'{name}median'])}{ends(own[f'{name}median_interval'])}"
                parts.append(f"{what} {median}, middle 80% {middle}")
    if failed := [f"{arm} {lost} of {own['runs'][arm]}" for arm, lost in own["failures"].items() if lost]:
        parts.append(f"failed runs: {', '.join(failed)}")
        parts.append(f"given that all trained it holds in {own['trained']['holds']} of {own['trained']['n']}")
    if late := [f"{arm} in {n}" for arm, n in own["unfitted"].items()]:
        parts.append(f"settings where an arm is not fitted: {', '.join(late)}")
    return "; ".join(parts)


def capital(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def title(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The id and the word with its scope. It says so if the claim tunes learning rates but this verdict did not."""
    untuned = " (untuned)" if verdict.get("untuned") else ""
    return f"{verdict['id']}{untuned}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


def with_scope(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The word with its scope: "supported: beyond the margin in 20 of 24 drawn settings"; counts alone where they make
    no word; in one setting what was seen there."""
    word, scope = verdict["verdict"], verdict.get("scope", "")
    if word == COUNTED:
        return scope
    if word in (SEEN, NOT_SEEN):
        seen = f"{number(verdict['effect'])}{ends(verdict['interval'])}, {verdict['n_seeds']} seeds"
        scope = seen if word == SEEN else f"{seen}, asked was {describe_question(verdict['comparison'])}"
    says = word.upper() if upper else word
    if not scope:
        return says
    return f"{says}{' ' if scope.startswith(('in ', 'by ')) else ': '}{scope}"


def describe_effect(comparison: dict[str, Any]) -> str:
    """What the number of a verdict means."""
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else None)
    what = f"{comparison['arm']} minus {against}" if against else comparison["arm"]
    if comparison["kind"] in ("increasing", "decreasing", "flat"):
        what = f"slope of {what}" + (f" over {comparison['over']}" if "over" in comparison else "")
    return f"{what}{' (logarithms)' if comparison.get('log') else ''}"


def named_effect(comparison: dict[str, Any]) -> str:
    """A comparison beside others of its claim."""
    level = f" at {comparison['at']}" if "at" in comparison else ""
    return f"{describe_effect(comparison)}{level}"


def describe_question(comparison: dict[str, Any]) -> str:
    """The comparison and its threshold, as fixed in the yaml."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    if kind == "every":
        bounds = {"at_most": "at most", "at_least": "at least", "equals": "equal to"}
        parts = [f"{text} {_bound(comparison[key])}" for key, text in bounds.items() if key in comparison]
        within = f" within {comparison['tolerance']:g}" if "tolerance" in comparison else ""
        return f"every value {' and '.join(parts)}{within}"
    size = "what matters in practice" if margin == "practical" else f"{margin:g}"
    if kind in ("equivalent", "flat"):
        if kind == "flat" and "target" in comparison:
            return f"a slope of {comparison['target']:g} within {size}"
        return f"{'no slope' if kind == 'flat' else 'no difference'} beyond {size}"
    return f"{kind} by more than {size}"


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    if not isinstance(bound, list):
        return f"{bound:g}"
    rest = f", ... {len(bound)} in all" if len(bound) > MOST_BOUNDS else ""
    return "[" + ", ".join(f"{value:g}" for value in bound[: 3 if rest else None]) + rest + "]"


MOST_BOUNDS = 8  # of a list that is told whole
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
        rests = f"{100 * verdict['level']:.4g}% interval, {verdict['method']}, {verdict['n_seeds']} seeds. {rests}"
    if verdict["note"]:
        rests = f"{rests.rstrip()} {capital(verdict['note'])}."
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
        named = [f"{compared(own['comparison'])}: " * (len(each) > 1) for own in each]
        named[1:] = map(capital, named[1:])
        each_told = [over_settings(own, measure, drawn=verdict["drawn"]) for own in each]
        return f"{measure}: {' '.join(name + one for name, one in zip(named, each_told, strict=True))}"
    told = stated(comparison, measure, float(verdict["effect"]), ends)
    return f"{measure}: {told}; {asked(comparison, measure)}."


def compared(comparison: dict[str, Any]) -> str:
    """A comparison beside others of its claim, by its arms: `none compared with layernorm`."""
    against = comparison.get("baseline", comparison.get("target"))
    level = f" at {comparison['at']}" if "at" in comparison else ""
    return f"{comparison['arm']}{f' compared with {against}' if against is not None else ''}{level}"


def over_settings(own: dict[str, Any], measure: str, *, drawn: bool) -> str:
    """What was asked of the settings, how many are on each side, and for drawn ones the median."""
    comparison, margin = own["comparison"], own["comparison"].get("margin", 0.0)
    beyond, within, opposite = (own[side] for side in ("beyond", "within", "opposite"))
    lost = {"no number (failed runs)": own["failed"]}
    holds, rest = beyond, {"too little to matter": within, "the other way": opposite} | lost
    if comparison["kind"] in EQUAL:
        holds, rest = within, {"higher": beyond, "lower": opposite} | lost
    elif margin != PRACTICAL and margin < 0:
        rest = {"worse": within + opposite} | lost
    elif "baseline" not in comparison and comparison["kind"] in ("greater", "smaller"):
        rest = {"not so": within + opposite} | lost
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
    trend = comparison["kind"] in TRENDS
    if trend and not per_step(comparison):
        words = [number(value) for value in (*ends, effect)]
        arm += (
            f", {comparison['over']} grows by one: change by"
            if "over" in comparison
            else ", off that slope by"
        )
        against = f" beside that {against}" if against else ""
    elif against or trend:
        against = f" {'as' if words[2].endswith('as high') else 'than'} {against}" if against else ""
        against = f"{per_step(comparison)}{against}" if trend else against
        if words[0].split()[1:] == words[1].split()[1:]:  # both lower, or both higher
            words[0] = words[0].split()[0]
    else:
        words = [value_of(value, comparison, measure) for value in (*ends, effect)]
    return f"{arm} {words[2]}{against}" + ("" if math.isnan(ends[0]) else f" ({words[0]} to {words[1]})")


def asked(comparison: dict[str, Any], measure: str) -> str:
    """`more than 10% lower was asked`."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    step = per_step(comparison) if kind in TRENDS else ""
    if kind in TRENDS and not step:
        return f"{describe_question(comparison)} was asked"
    if margin == PRACTICAL:
        sides = {"smaller": "lower by enough to matter", "greater": "higher by enough to matter"}
        either = "no difference that matters" if kind in EQUAL else "a difference that matters"
        return f"{sides.get(kind, either)} in practice was asked"
    if "baseline" not in comparison and not step:
        low, high = (value_of(edge, comparison, measure) for edge in (-margin, margin))
        bounds = {
            "greater": f"above {high}",
            "smaller": f"below {low}",
            "different": f"outside {low} to {high}",
        }
        return f"{bounds.get(kind, f'between {low} and {high}')} was asked"
    if kind in (*EQUAL, "different"):
        edge = difference(margin, comparison, measure).removesuffix(" higher")
        what = "change" if step else "difference"
        return f"{'no' if kind in EQUAL else 'a'} {what} beyond {edge}{step} was asked"
    low = kind in ("smaller", "decreasing")
    bound = difference(-margin if low else margin, comparison, measure)
    if not margin:
        return f"{'lower' if low else 'higher'}{step} was asked"
    return f"{'more than' if margin > 0 else 'at most'} {bound}{step} was asked"


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


def value_of(effect: float, comparison: dict[str, Any], measure: str) -> str:
    """The value itself, of a comparison with a number: the effect is counted from that number."""
    target = comparison.get("target") or 0.0
    value = math.exp(effect) * (target or 1.0) if comparison.get("log") else effect + target
    return f"{number(100 * value)}%" if measure.startswith(SHARES) else number(value)


def arm_in_words(arm: str) -> str:
    """`with batchnorm`, `without a norm`."""
    return "without a norm" if arm == "none" else f"with {arm}" if arm else ""
