"""A verdict in words: its title, its counts, its effect as one would say it (`with batchnorm 2% higher than without a
norm (11% lower to 18% higher); more than 10% lower was asked`), and the paragraph for the screen and for reports."""

import math
import textwrap
from collections.abc import Mapping
from typing import Any

from normexp.claims.judge.comparison import EQUAL, PRACTICAL, TRENDS
from normexp.claims.judge.estimate import ALPHA
from normexp.format import pluralize

SUPPORTED, REFUTED, DIVIDED, UNDECIDED = "supported", "refuted", "divided", "undecided"
NO_COUNTEREXAMPLE = "no counterexample"
SEEN, NOT_SEEN = "seen here", "not seen here"
COUNTED = "counted"  # of settings that make no word about a population
BEGUN = "begun"  # fewer drawn settings are finished than the claim asks for
NOT_RUN = "not yet run"
WITHDRAWN_WORD = "withdrawn"  # as worded, by its file
WORDS = (
    *(SUPPORTED, REFUTED, DIVIDED, UNDECIDED, NO_COUNTEREXAMPLE, SEEN, NOT_SEEN, COUNTED, BEGUN),
    *(NOT_RUN, WITHDRAWN_WORD),
)
DOUBLE = math.log(2)  # from here on a ratio is told as a factor
WIDTH = 110  # of a paragraph in a file; a narrower screen has narrower lines
SHARES = ("share of", "accuracy", "validation accuracy", "test accuracy")  # so begin measures between 0 and 1
MOST_BOUNDS = 8  # of a list that is told whole
MOST_CASES = 4  # whose means are told
ROUNDING = 1e-12  # in float64; less is told as 0


def number(value: Any) -> str:
    """A number with three digits; JSON has infinities as text."""
    return f"{float(value):.3g}"


def ends(interval: Any, form: str = ".3g", scale: float = 1.0) -> str:
    """An interval behind its number: ` (-1.5 to 2)`; one that excludes no value is ` (no interval)`."""
    low, high = (scale * float(end) for end in interval)
    return " (no interval)" if math.isinf(low) and math.isinf(high) else f" ({low:{form}} to {high:{form}})"


def arm_words(arms: Mapping[str, Any]) -> dict[str, str]:
    """What an arm `none` is called where it has a norm, and lacks something else: by its own overrides."""
    own = arms.get("none", ())
    if not isinstance(own, (list, tuple)) or not own or "norm=none" in own:
        return {}
    return {"none": " ".join(word.removeprefix("norm=") for word in own)}


def with_arm_words(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict for people: it calls arms by their `arm_words`, in its comparisons and where it counts runs."""
    words = verdict.get("arm_words")
    if not words:
        return verdict

    def renamed(result: dict[str, Any]) -> dict[str, Any]:
        by_arm = {
            key: {words.get(arm, arm): value for arm, value in result[key].items()}
            for key in ("failures", "runs", "unfitted", "arms")
            if key in result
        }
        ends = {key: words[result[key]] for key in ("arm", "baseline") if result.get(key) in words}
        comparison = {"comparison": renamed(result["comparison"])} if "comparison" in result else {}
        return result | by_arm | ends | comparison

    return renamed(verdict) | {"comparisons": list(map(renamed, verdict.get("comparisons", ())))}


def holds_in(comparison: Mapping[str, Any]) -> str:
    """What is counted, in words."""
    margin = comparison.get("margin", 0.0)
    if margin != PRACTICAL and margin < 0:
        return "no worse than the margin"
    return f"{'within' if comparison['kind'] in EQUAL else 'beyond'} the margin"


def beside(result: dict[str, Any], *, drawn: bool) -> list[str]:
    """What stands beside the word of a comparison over settings: its share and direction, settings that networks learn,
    moderators, what equal arms would score, and runs that failed."""
    parts = list[str]()
    if drawn:
        parts.append(f"share {result['share']:.2f}{ends(result['share_interval'], '.2f')}")
    if (signs := result["direction"]) and signs["of"]:
        parts.append(
            f"the sign is the claimed one in {signs['claimed']} of {signs['of']} (p {chance(signs['p'])})"
        )
    if drawn and result["learned"]:
        names = {"learned": "networks learn", "others": "they do not"}
        told = (f"where {words} {among(result[key])}" for key, words in names.items() if result[key]["asked"])
        parts.append(", ".join(told))
    if result["ceiling"] is not None:
        parts.append(
            f"two copies of one arm with other seeds would score {result['ceiling']:.0f} of {result['asked']}"
        )
    if drawn and (tested := result["moderators"]):
        depends = [
            f"{moderator['name']} ({', '.join(f'{name} {k} of {n}' for name, (k, n) in moderator['groups'].items())})"
            for moderator in tested
            if moderator["p"] <= ALPHA
        ]
        all_names = " or ".join(moderator["name"] for moderator in tested)
        parts.append(
            f"depends on {', '.join(depends)}" if depends else f"no dependence on {all_names} was found"
        )
    if failed := [
        f"{who(arm)} {lost} of {result['runs'][arm]}" for arm, lost in result["failures"].items() if lost
    ]:
        given = f"{result['trained']['holds']} of {result['trained']['n']}"
        parts.append(f"failed runs: {', '.join(failed)} (where all trained it holds in {given})")
    if late := [f"{who(arm)} in {n}" for arm, n in result["unfitted"].items()]:
        parts.append(f"settings where an arm that is not of the bank's grid is not fitted: {', '.join(late)}")
    return parts


def chance(p: float) -> str:
    """A p with two digits."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def among(counted: Mapping[str, Any]) -> str:
    """`20 of 25 (0.59 to 0.93)`"""
    return f"{counted['holds']} of {counted['asked']}{ends(counted['share_interval'], '.2f')}"


def besides(verdict: dict[str, Any]) -> list[str]:
    """`beside` of each comparison, behind its name if there are several."""
    results = with_arm_words(verdict)["comparisons"]
    lines = []
    for result in results:
        prefix = f"{named_effect(result['comparison'])}: " if len(results) > 1 else ""
        if told := "; ".join(beside(result, drawn=verdict["drawn"])):
            lines.append(prefix + told)
    return lines


def capital(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def title(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The id and the word with its scope."""
    return f"{verdict['id']}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


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
    margin = (verdict.get("comparison") or {}).get("margin", 0)
    if isinstance(margin, int | float) and margin < 0:  # the sentence alone would say more
        scope = f"{scope}; being up to {number(-margin)} worse was allowed".lstrip("; ")
    if not scope:
        return says
    return f"{says}{' ' if scope.startswith(('in ', 'by ')) else ': '}{scope}"


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


def paragraph(verdict: dict[str, Any], width: int = WIDTH) -> str:
    """The text for the screen, in lines of at most `width` letters: the sentence, its effect, what it rests on."""
    rests = verdict["means"] or ""
    if verdict["verdict"] == BEGUN:
        verdict = verdict | {"note": ""}
    elif verdict["settings"]:
        rests = f"{'. '.join(map(capital, besides(verdict)))}. {rests}".removeprefix(". ")
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
    verdict = with_arm_words(verdict)
    comparison, measure = verdict["comparison"], verdict["measure"]
    if verdict.get("verdict") == BEGUN:
        question = threshold_in_words(comparison, measure)
        return f"{measure}: {question}. Nothing is counted before all settings are finished."
    if comparison["kind"] == "every":
        return f"{measure}: {values_in_words(verdict)}; asked: {describe_question(comparison)}."
    if not verdict["settings"]:
        effect_text = stated(comparison, measure, verdict["effect"], verdict["interval"])
        return f"{measure}: {effect_text}; {threshold_in_words(comparison, measure)}."
    return f"{measure}: {comparisons_in_words(verdict)}"


def values_in_words(verdict: dict[str, Any]) -> str:
    """The values of a universal sentence: the mean of each of a few cases, or the ends of all."""
    arms = verdict.get("arms", {})
    cases = [(arm, level, value) for arm, own in arms.items() for level, value in own.items()]
    plain = all(math.isfinite(float(value)) and not level.isdecimal() for _, level, value in cases)
    if not (plain and 1 < len(cases) <= MOST_CASES):
        low, high = map(rounded, verdict["interval"])
        return f"all values {low}" if low == high else f"all values from {low} to {high}"
    one_arm = len(arms) == 1
    return ", ".join(
        f"{rounded(value)} for {level if one_arm else f'{arm} {level}'.strip()}"
        for arm, level, value in cases
    )


def rounded(value: Any) -> str:
    """Three digits, and 0 for what is rounding."""
    return "0" if abs(float(value)) < ROUNDING else number(value)


def comparisons_in_words(verdict: dict[str, Any], *, asked: bool = True) -> str:
    """What came out over settings, each comparison behind its arms if there are several. Without `asked` it leaves out
    the question, and what the scope says, too."""
    results = verdict["comparisons"]
    prefixes = [f"{compared(result['comparison'])}: " * (len(results) > 1) for result in results]
    prefixes[1:] = map(capital, prefixes[1:])
    texts = list[str]()
    for result, prefix in zip(results, prefixes, strict=True):
        question = f"{threshold_in_words(result['comparison'], verdict['measure'])}; " * asked
        told = over_settings(result, verdict["measure"], drawn=verdict["drawn"], count=asked)
        texts.append(prefix + question + told)
    return " ".join(texts).strip()


def compared(comparison: dict[str, Any]) -> str:
    """A comparison beside others of its claim, by its arms: `none compared with layernorm`."""
    against = comparison.get("baseline", comparison.get("target"))
    level = f" at {comparison['at']}" if "at" in comparison else ""
    return f"{comparison['arm']}{f' compared with {against}' if against is not None else ''}{level}"


def over_settings(result: dict[str, Any], measure: str, *, drawn: bool, count: bool) -> str:
    """In how many settings it is so (`count`) and not so, and for drawn ones the median."""
    comparison, margin = result["comparison"], result["comparison"].get("margin", 0.0)
    beyond, within, opposite = (result[side] for side in ("beyond", "within", "opposite"))
    holds, rest = beyond, {"too little to matter": within, "the other way": opposite}
    if comparison["kind"] in EQUAL:
        holds, rest = within, {"higher": beyond, "lower": opposite}
    elif margin != PRACTICAL and margin < 0:
        rest = {"worse": within + opposite}
    elif "baseline" not in comparison and comparison["kind"] in ("greater", "smaller"):
        rest = {"not so": within + opposite}
    rest |= {"cannot be asked (failed runs)": result["failed"]} if count else {}
    parts = [f"so in {holds} of {pluralize(result['asked'], 'setting')}"] * count
    parts += [f"{word} in {cases}" for word, cases in rest.items() if cases]
    text = f"{', '.join(parts)}." * bool(parts)
    if not drawn or result["median"] is None:
        return text
    middle = stated(comparison, measure, result["median"], result["median_interval"])
    return f"{text} In the middle of the settings: {middle}.".lstrip()


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
    """`more than 10% lower was asked`."""
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
    return f"{words} was asked"


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
