"""A verdict in words: its title, its counts, and the paragraph for the screen and for reports."""

import math
import textwrap
from collections.abc import Mapping
from typing import Any

from normexp.claims.judge.comparison import EQUAL, PRACTICAL
from normexp.claims.judge.effect_words import (
    compared,
    describe_question,
    ends,
    named_effect,
    number,
    stated,
    threshold_in_words,
    who,
)
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
MOST_CASES = 4  # whose means are told
ROUNDING = 1e-12  # in float64; less is told as 0


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
    no word; in one setting its effect."""
    word, scope = verdict["verdict"], verdict.get("scope", "")
    if word == COUNTED:
        return scope
    if word in (SEEN, NOT_SEEN):
        seen = f"{number(verdict['effect'])}{ends(verdict['interval'])}, {verdict['n_seeds']} seeds"
        scope = seen if word == SEEN else f"{seen}, claimed is {describe_question(verdict['comparison'])}"
    says = word.upper() if upper else word
    margin = (verdict.get("comparison") or {}).get("margin", 0)
    if isinstance(margin, int | float) and margin < 0:  # the sentence alone would say more
        scope = f"{scope}; being up to {number(-margin)} worse was allowed".lstrip("; ")
    if not scope:
        return says
    return f"{says}{' ' if scope.startswith(('in ', 'by ')) else ': '}{scope}"


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
    """The measure, the effect, and what is claimed."""
    verdict = with_arm_words(verdict)
    comparison, measure = verdict["comparison"], verdict["measure"]
    if verdict.get("verdict") == BEGUN:
        question = threshold_in_words(comparison, measure)
        return f"{measure}: {question}. Nothing is counted before all settings are finished."
    if comparison["kind"] == "every":
        return f"{measure}: {values_in_words(verdict)}; claimed is {describe_question(comparison)}."
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
    parts = [f"holds in {holds} of {pluralize(result['asked'], 'setting')}"] * count
    parts += [f"{word} in {cases}" for word, cases in rest.items() if cases]
    text = f"{', '.join(parts)}." * bool(parts)
    if not drawn or result["median"] is None:
        return text
    middle = stated(comparison, measure, result["median"], result["median_interval"])
    return f"{text} Median over settings: {middle}.".lstrip()
