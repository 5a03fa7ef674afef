"""The numbers behind a word in English: over settings and in one, of means and of universal sentences, and the question
that they answer."""

import re
from collections.abc import Mapping, Sequence

from normexp.claims.judge.estimate import ALPHA, Ends
from normexp.claims.judge.verdict import Count, Judgement, Share, Verdict, Word
from normexp.claims.units import bounds, capital, effect_name, ends, never_reached, number, question, stated
from normexp.format import pluralize

ROUNDING = 1e-12  # relative changes below are those of float64
MOST_CASES = 8  # named cases of a universal sentence that are told one by one


def numbers_of(verdict: Verdict, *, asked: bool = True) -> str:
    """The numbers behind a word, and with `asked` the question, to stand behind a colon: only its later sentences begin
    with a capital. None before all drawn settings are finished."""
    judged = reported(verdict)
    universal = not verdict.counts and all(one.comparison.rule.universal for one in judged)
    if verdict.word == Word.BEGUN:
        lines = ["nothing is counted before all settings are finished"]
    elif verdict.counts:
        lines = named(verdict, [over_settings(result, verdict) for result in verdict.counts])
    elif of_arms := by_arm(verdict, asked=asked):
        return "; ".join(of_arms)
    else:
        lines = [values_of(verdict) if universal else "; ".join(_number_of(one, verdict) for one in judged)]
    if asked:
        several = not universal and len(verdict.counts or judged) > 1
        questions = dict.fromkeys(
            (f"{effect_name(result.comparison)}: " if several else "")
            + question(result.comparison, verdict.claim.measure)
            for result in verdict.comparisons
        )
        lines.append(f"the claim: {', '.join(questions)}")
    first, *more = [*filter(None, lines)] or [""]
    return ". ".join([first, *map(capital, more)])


def named(verdict: Verdict, texts: Sequence[str]) -> list[str]:
    """What is said of each comparison over settings, of several behind its name."""
    if len(verdict.counts) == 1:
        return list(texts)
    pairs = zip(verdict.counts, texts, strict=True)
    return [f"{effect_name(result.comparison)}: {text}" for result, text in pairs if text]


def over_settings(result: Count, verdict: Verdict) -> str:
    """What came out over settings beside the count in which it holds, which the scope says: of drawn settings the
    median, the share and where networks learn; then `beside_count`."""
    parts = []
    if verdict.claim.drawn and result.median is not None:
        parts += [
            f"median over settings: {median(result, verdict.claim.measure)}",
            f"share {result.share:.2f}{ends(result.share_interval, '.2f')}",
        ]
    if verdict.claim.drawn and result.learned and result.others:
        others = "they do not" if result.learned.asked else "networks do not learn"
        strata = {learned_words(verdict): result.learned, others: result.others}
        parts += [f"where {who} {among(stratum)}" for who, stratum in strata.items() if stratum.asked]
    if verdict.claim.drawn and verdict.confidence != 1 - ALPHA:
        parts.append(f"intervals of {100 * verdict.confidence:.4g}%, as the protocol was amended")
    return "; ".join(parts + beside_count(result, drawn=verdict.claim.drawn))


def learned_words(verdict: Verdict) -> str:
    """What is meant by settings that have learned."""
    return "networks learn at full length" if verdict.claim.early else "networks learn"


def median(result: Count, measure: str) -> str:
    """The median effect over settings with its interval."""
    return stated(result.comparison, measure, result.median, result.median_interval)


def among(counted: Share) -> str:
    """`20 of 25 (0.59 to 0.93)`"""
    return f"{counted.holds} of {counted.asked}{ends(counted.share_interval, '.2f')}"


def beside_count(result: Count, *, drawn: bool) -> list[str]:
    """What stands beside the count in which it holds: what is seen in the other settings (`too little to matter in
    11`), the sign, the count of two equal arms, on what it depends, which runs failed, which arms are not fitted."""
    if result.comparison.rule.within:
        sides = {"higher": result.beyond, "lower": result.opposite}
    else:
        sides = {"too little to matter": result.within, "the other way": result.opposite}
    not_held = [f"{word} in {n}" for word, n in sides.items() if n]
    parts = [f"where it does not hold: {', '.join(not_held)}"] if not_held else []
    if result.clear:
        there, elsewhere, neither = result.clear
        found = f"clear in {there}, clearly not in {elsewhere}, open in {neither}"
        parts.append(f"by the seeds of each setting {found}")
    if signs := result.direction:
        p = "< 0.001" if signs.p < 0.001 else f"{signs.p:.2g}"
        parts.append(f"the sign is the claimed one in {signs.claimed} of {signs.of} (p {p})")
    if result.ceiling is not None:
        most = f"{result.ceiling:.0f} of {result.asked}"
        parts.append(f"one arm at two different seeds would hold in about {most}")
    if drawn and result.moderators:
        parts.append(dependence(result))
    if failed := [f"{n} of {result.runs[arm]} with {arm}" for arm, n in result.failures.items() if n]:
        text = f"failed runs: {', '.join(failed)}"
        if result.trained.n:
            text += f" (at seeds where all trained it holds in {result.trained.holds} of {result.trained.n})"
        parts.append(text)
    if result.unreached:
        parts.append(never_reached(result.unreached))
    if result.unfitted:
        *first, (last, n) = result.unfitted.items()
        arms = ", ".join([*(f"{arm} in {k}" for arm, k in first), f"{last} in {pluralize(n, 'setting')}"])
        parts.append(f"not trained to the end, so more updates may lower the error: {arms}")
    return parts


def dependence(result: Count) -> str:
    """On which moderators a claim depends, of those that could show it."""
    depends = [
        f"{tested.name} ({', '.join(f'{side} {k} of {n}' for side, (k, n) in tested.groups.items())})"
        for tested in result.moderators
        if tested.depends
    ]
    if depends:
        return f"depends on {', '.join(depends)}"
    *names, last = (tested.name for tested in result.moderators)
    return f"no dependence on {' or '.join(filter(None, (', '.join(names), last)))} was found"


def reported(verdict: Verdict) -> Sequence[Judgement]:
    """The judgements whose numbers are reported: of networks all of them; of exact values the one that decides."""
    return (verdict.deciding,) if verdict.claim.evidence == "law" else verdict.judgements


def _number_of(judged: Judgement, verdict: Verdict) -> str:
    """The effect of a mean, or the values of which a universal sentence beside it speaks."""
    if not judged.comparison.rule.universal:
        return stated(judged.comparison, verdict.claim.measure, judged.effect, judged.interval)
    return f"{effect_name(judged.comparison)} {span(verdict, *judged.interval)}"


def by_arm(verdict: Verdict, *, asked: bool = True) -> list[str]:
    """Of universal sentences about several arms a line for each: its values, and with `asked` its own bound."""
    judged = [judgement for judgement in verdict.judgements if judgement.comparison.rule.universal]
    if len({arm for judgement in judged for arm in judgement.ranges}) < 2:
        return []
    lines = []  # (values, what is claimed of them)
    for judgement in judged:
        level = judgement.comparison.at
        at = "" if level is None else f" at {level}"
        for arm, ranges in judgement.ranges.items():
            values = f"{arm}{at}: {', '.join(_levels(verdict, ranges))}"
            lines.append((values, bounds(judgement.comparison, arm)))
    lines += [  # of a sentence with means beside
        (_number_of(one, verdict), question(one.comparison, verdict.claim.measure))
        for one in reported(verdict)
        if not one.comparison.rule.universal
    ]
    return [f"{values}; claimed: {claimed}" if asked else values for values, claimed in lines]


def _levels(verdict: Verdict, ranges: Mapping[str, Ends]) -> list[str]:
    """The values of an arm at each of a few levels, or at all."""
    if 1 < len(ranges) <= MOST_CASES:
        return [f"{span(verdict, *both)} at {level}" for level, both in ranges.items()]
    lows, highs = zip(*ranges.values(), strict=True)
    return [span(verdict, min(lows), max(highs))]


def values_of(verdict: Verdict) -> str:
    """The values of a universal sentence about one arm: the mean of each of a few named cases, or the ends of all."""
    cases = [case for means in verdict.arms.values() for case in means.items()]
    if 1 < len(cases) <= MOST_CASES and all(re.search("[a-df-z]", level) for level, _ in cases):
        return ", ".join(f"{rounded(verdict, value)} for {level}" for level, value in cases)
    text = span(verdict, *verdict.deciding.interval)
    return f"all values from {text}" if " to " in text else f"all values {text}"


def span(verdict: Verdict, low: float, high: float) -> str:
    """`0.2 to 3`; one number where both ends read the same."""
    return " to ".join(dict.fromkeys(rounded(verdict, end) for end in (low, high)))


def rounded(verdict: Verdict, value: float) -> str:
    """A value with three digits; 0 where a relative change is that of float64."""
    return "0" if verdict.claim.measure.startswith("relative") and abs(value) < ROUNDING else number(value)
