"""A verdict in words: an effect and its question, what stands beside a word, the title and the paragraph."""

import math
import re
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from normexp.claims.judge.comparison import EQUAL, TRENDS, Comparison
from normexp.claims.judge.estimate import ALPHA
from normexp.format import pluralize

SUPPORTED, REFUTED, DIVIDED, UNDECIDED = "supported", "refuted", "divided", "undecided"
NO_COUNTEREXAMPLE = "no counterexample"
SEEN, NOT_SEEN = "holds here", "not shown here"
COUNTED = "counted"  # of settings that make no word about a population
BEGUN = "begun"  # fewer drawn settings are finished than the claim asks for
NOT_RUN = "not yet run"
WITHDRAWN_WORD = "withdrawn"  # as worded, by its file
WORDS = (
    *(SUPPORTED, REFUTED, DIVIDED, UNDECIDED, NO_COUNTEREXAMPLE, SEEN, NOT_SEEN, COUNTED, BEGUN),
    *(NOT_RUN, WITHDRAWN_WORD),
)
WIDTH = 110  # of a paragraph in a file; a narrower screen has narrower lines
ROUNDING = 1e-12  # relative changes below are those of float64
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


def comparison_in(result: Mapping[str, Any]) -> Comparison:
    """The comparison that a verdict shows by the fields that were set."""
    return Comparison.model_construct(**result["comparison"])


def effect_name(comparison: Comparison) -> str:
    """What the number of a comparison means, which also tells it from others of its claim."""
    slope = comparison.kind in TRENDS
    what = f"slope of {comparison.arm}" if slope else f"{comparison.arm}"
    if comparison.baseline:
        what += f" against {'that of ' * slope}{comparison.baseline}"
    elif comparison.target is not None:
        what += f" against {comparison.target:g}"
    return what if comparison.at is None else f"{what} at {comparison.at}"


class Difference(NamedTuple):
    """The words of a difference: `2%`, `higher` of a ratio, `3`, `times as high` of a large one, `1.2`, `lower`,
    `points` of a share."""

    size: str
    way: str
    unit: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.size, self.unit, self.way)))


def difference(value: float, comparison: Comparison, measure: str) -> Difference:
    """A difference as its measure counts it."""
    way = "higher" if value > 0 else "lower"
    if comparison.log:
        if abs(value) >= DOUBLE:
            return Difference(number(math.exp(value)), "times as high")
        return Difference(f"{100 * abs(math.expm1(value)):.2g}%", way)
    if measure.startswith(SHARES):
        points = f"{100 * abs(value):.2g}"
        return Difference(points, way, "point" if points == "1" else "points")
    if measure.startswith(STEPS):
        return Difference(number(abs(value)), "more" if value > 0 else "fewer", "steps")
    return Difference(number(abs(value)), way)


def stated(comparison: Comparison, measure: str, effect: Any, interval: Any) -> str:
    """`batchnorm 2% higher than none (11% lower to 18% higher)`; of a slope or a value its number."""
    value, low, high = map(float, (effect, *interval))
    if math.isnan(value):
        return "no number"
    if comparison.log and comparison.target and comparison.kind not in TRENDS:
        # The value itself, not its logarithm.
        value, low, high = (comparison.target * math.exp(end) for end in (value, low, high))
        return f"{comparison.arm} {number(value)}{ends((low, high))}"
    if comparison.kind in TRENDS or not comparison.baseline:
        logarithms = " (logarithms)" * comparison.log
        return f"{effect_name(comparison)}{logarithms}: {number(value)}{ends((low, high))}"
    middle, first, last = (difference(end, comparison, measure) for end in (value, low, high))
    arm = comparison.arm if comparison.at is None else f"{comparison.arm} at {comparison.at}"
    told = f"{arm} {middle} {'as' if middle.way.startswith('times') else 'than'} {comparison.baseline}"
    if not math.isfinite(low):
        return f"{told} (no interval)"
    return f"{told} ({first.size if first[1:] == last[1:] else first} to {last})"


def question(comparison: Comparison, measure: str) -> str:
    """What is claimed, as fixed in the yaml: `more than 10% lower`."""
    kind, margin = comparison.kind, comparison.size
    if kind == "every":
        keys = {"at most": "at_most", "at least": "at_least", "equal to": "equals"}
        bounds = {text: getattr(comparison, key) for text, key in keys.items()}
        parts = [f"{text} {_bound(bound)}" for text, bound in bounds.items() if bound is not None]
        within = f" within {comparison.tolerance:g}" if comparison.tolerance else ""
        return f"every value {' and '.join(parts)}{within}"
    if comparison.practical:
        way = {"smaller": "lower", "greater": "higher"}.get(kind, kind)
        enough = f"{way} by enough to matter in practice"
        return "no difference that matters in practice" if kind in EQUAL else enough
    if kind in TRENDS or not comparison.baseline:
        if kind == "flat" and comparison.target:
            return f"a slope of {comparison.target:g} within {margin:g}"
        if kind in EQUAL:
            return f"{'no slope' if kind == 'flat' else 'no difference'} beyond {margin:g}"
        return f"{kind} by more than {margin:g}"
    below = kind == "smaller"
    size = difference(-margin if below else margin, comparison, measure)
    if kind in (*EQUAL, "different"):
        beyond = size if size.way.startswith("times") else size._replace(way="")
        return f"{'no' if kind in EQUAL else 'a'} difference beyond {beyond}"
    if not margin:
        return "lower" if below else "higher"
    return f"{'more than' if margin > 0 else 'at most'} {size}"


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    if not isinstance(bound, list):
        return f"{bound:g}"
    rest = f", ... {len(bound)} in all" if len(bound) > MOST_BOUNDS else ""
    return "[" + ", ".join(f"{value:g}" for value in bound[: 3 if rest else None]) + rest + "]"


def holds_in(comparison: Comparison) -> str:
    """What is counted, in words."""
    if comparison.size < 0:
        return "no worse than the margin"
    return f"{'within' if comparison.kind in EQUAL else 'beyond'} the margin"


def over_settings(result: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    """What came out over settings beside the count in which it holds, which the scope says: of drawn settings the
    median, the share and where networks learn; then `beside_count`."""
    measure, drawn, level = verdict["measure"], verdict["drawn"], verdict["level"]
    parts = []
    if drawn and result["median"] is not None:
        parts += [
            f"median over settings: {median(result, measure)}",
            f"share {result['share']:.2f}{ends(result['share_interval'], '.2f')}",
        ]
    if drawn and result["learned"]:
        others = "they do not" if result["learned"]["asked"] else "networks do not learn"
        strata = {learned_words(verdict): result["learned"], others: result["others"]}
        parts += [f"where {words} {among(own)}" for words, own in strata.items() if own["asked"]]
    if drawn and level != 1 - ALPHA:
        parts.append(f"intervals of {100 * level:.4g}%, as the protocol was amended")
    return "; ".join(parts + beside_count(result, drawn=drawn))


def learned_words(verdict: Mapping[str, Any]) -> str:
    """What is meant by settings that have learned."""
    return "networks learn at full length" if verdict.get("early") else "networks learn"


def median(result: Mapping[str, Any], measure: str) -> str:
    """The median effect over settings with its interval."""
    return stated(comparison_in(result), measure, result["median"], result["median_interval"])


def beside_count(result: Mapping[str, Any], *, drawn: bool) -> list[str]:
    """What stands beside the count in which it holds: what is seen in the other settings (`too little to matter in
    11`), the sign, the count of two equal arms, on what it depends, which runs failed, which arms are not fitted."""
    if comparison_in(result).kind in EQUAL:
        sides = {"beyond": "higher", "opposite": "lower"}
    else:
        sides = {"within": "too little to matter", "opposite": "the other way"}
    not_held = [f"{word} in {result[side]}" for side, word in sides.items() if result[side]]
    parts = [f"where it does not hold: {', '.join(not_held)}"] if not_held else []
    if signs := result["direction"]:
        p = "< 0.001" if signs["p"] < 0.001 else f"{signs['p']:.2g}"
        parts.append(f"the sign is the claimed one in {signs['claimed']} of {signs['of']} (p {p})")
    if result["ceiling"] is not None:
        most = f"{result['ceiling']:.0f} of {result['asked']}"
        parts.append(f"one arm at two different seeds would hold in about {most}")
    if drawn and (tested := result["moderators"]):
        depends = [
            f"{own['name']} ({', '.join(f'{side} {k} of {n}' for side, (k, n) in own['groups'].items())})"
            for own in tested
            if own["p"] <= ALPHA
        ]
        *names, last = (own["name"] for own in tested)
        all_names = " or ".join(filter(None, (", ".join(names), last)))
        independent = f"no dependence on {all_names} was found"
        parts.append(f"depends on {', '.join(depends)}" if depends else independent)
    runs = result["runs"]
    if failed := [f"{lost} of {runs[arm]} with {arm}" for arm, lost in result["failures"].items() if lost]:
        trained = result["trained"]
        among_trained = f" (at seeds where all trained it holds in {trained['holds']} of {trained['n']})"
        parts.append(f"failed runs: {', '.join(failed)}{among_trained * bool(trained['n'])}")
    if late := result["unfitted"]:
        *first, (last, n) = late.items()
        arms = ", ".join([*(f"{arm} in {k}" for arm, k in first), f"{last} in {pluralize(n, 'setting')}"])
        parts.append(f"not trained to the end, so more updates may lower the error: {arms}")
    return parts


def among(counted: Mapping[str, Any]) -> str:
    """`20 of 25 (0.59 to 0.93)`"""
    return f"{counted['holds']} of {counted['asked']}{ends(counted['share_interval'], '.2f')}"


def numbers_of(verdict: Mapping[str, Any], *, asked: bool = True) -> str:
    """The numbers behind a word, and with `asked` the question, to stand behind a colon: only its later sentences begin
    with a capital. None before all drawn settings are finished."""
    measure, first = verdict["measure"], comparison_in(verdict)
    if verdict["verdict"] == BEGUN:
        told = ["nothing is counted before all settings are finished"]
    elif first.kind == "every":
        told = [values_of(verdict)]
    elif verdict["settings"]:
        results = verdict["comparisons"]
        told = [over_settings(result, verdict) for result in results]
        if len(results) > 1:
            names = [effect_name(comparison_in(result)) for result in results]
            told = [f"{name}: {text}" for name, text in zip(names, told, strict=True) if text]
    else:
        told = [stated(first, measure, verdict["effect"], verdict["interval"])]
    questions = dict.fromkeys(question(comparison_in(result), measure) for result in verdict["comparisons"])
    told += [f"the claim: {', '.join(questions)}"] * asked
    texts = [text for text in told if text]
    return ". ".join([*texts[:1], *map(capital, texts[1:])])


def values_of(verdict: Mapping[str, Any]) -> str:
    """The values of a universal sentence: the mean of each of a few named cases, or the ends of all."""

    def rounded(value: Any) -> str:
        relative = verdict["measure"].startswith("relative")
        return "0" if relative and abs(float(value)) < ROUNDING else number(value)

    arms = verdict["arms"]
    cases = [(arm, level, value) for arm, own in arms.items() for level, value in own.items()]
    if 1 < len(cases) <= MOST_BOUNDS and all(re.search("[a-df-z]", level) for _, level, _ in cases):
        named = [(level if len(arms) == 1 else f"{arm} {level}", value) for arm, level, value in cases]
        return ", ".join(f"{rounded(value)} for {name}" for name, value in named)
    low, high = map(rounded, verdict["interval"])
    return f"all values {low}" if low == high else f"all values from {low} to {high}"


def title(verdict: Mapping[str, Any], *, upper: bool = False) -> str:
    """The id and the word with its scope."""
    return f"{verdict['id']}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


def with_scope(verdict: Mapping[str, Any], *, upper: bool = False) -> str:
    """The word with its scope: "supported: beyond the margin in 20 of 24 drawn settings"; counts alone where they make
    no word; in one setting its effect."""
    word, scope = verdict["verdict"], verdict.get("scope", "")
    if word == COUNTED:
        return scope
    if word in (SEEN, NOT_SEEN):
        effect = f"{number(verdict['effect'])}{ends(verdict['interval'])}, "  # on the screen its line follows
        scope = f"over {verdict['n_seeds']} seeds" if upper else f"{effect}{verdict['n_seeds']} seeds"
    says = word.upper() if upper else word
    margin = comparison_in(verdict).size
    if margin < 0:  # the sentence alone would say more
        scope = f"{scope}; being up to {number(-margin)} worse was allowed".lstrip("; ")
    if not scope:
        return says
    return f"{says}{' ' if scope.startswith(('in ', 'by ', 'over ')) else ': '}{scope}"


def paragraph(verdict: dict[str, Any], width: int = WIDTH) -> str:
    """The text for the screen, in lines of at most `width` letters: the sentence, its numbers, what it rests on."""
    rests = [verdict["means"], capital(f"{verdict['note']}.") if verdict["note"] else ""]
    if not verdict["settings"] and comparison_in(verdict).kind != "every" and verdict["verdict"] != BEGUN:
        over = "the differences of " if comparison_in(verdict).baseline else ""
        level, seeds = f"{100 * verdict['level']:.4g}% interval", f"{verdict['n_seeds']} seeds"
        rests.insert(0, f"In brackets the {level} over {over}{seeds} ({verdict['method']}).")
    lines = [
        f"{title(verdict, upper=True)}: {verdict['sentence']}",
        f"{verdict['measure']}: {numbers_of(verdict)}.",
        " ".join(filter(None, rests)),
    ]
    if verdict["as_expected"] is False:
        expected = f"mathematics says {verdict['expected']}"
        lines.append(f"UNEXPECTED: {expected}; look for an error before you believe this.")
    lines += [verdict["does_not_show"], f"source: {verdict['source']}"]
    return "\n".join(textwrap.fill(line, width, subsequent_indent="    ") for line in lines if line)
