"""A verdict in English: effects and questions, what stands beside a word, scope and note, the title and the paragraph.
Nothing else in `claims` makes sentences, and nothing reads them."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence

from normexp.claims.judge.estimate import ALPHA, Ends
from normexp.claims.judge.verdict import (
    FEWEST_SETTINGS,
    Check,
    Count,
    Few,
    Judgement,
    Limits,
    Share,
    Verdict,
    Word,
)
from normexp.claims.units import (
    bounds,
    capital,
    effect_name,
    ends,
    holds_in,
    never_reached,
    number,
    question,
    stated,
)
from normexp.format import pluralize
from normexp.runs.table import FEWEST_SEEDS

WIDTH = 110  # of a paragraph in a file; a narrower screen has narrower lines
ROUNDING = 1e-12  # relative changes below are those of float64
MOST_NAMED = 5  # models, data sets
MOST_CASES = 8  # named cases of a universal sentence that are told one by one


def over_settings(result: Count, verdict: Verdict) -> str:
    """What came out over settings beside the count in which it holds, which the scope says: of drawn settings the
    median, the share and where networks learn; then `beside_count`."""
    parts = []
    if verdict.drawn and result.median is not None:
        parts += [
            f"median over settings: {median(result, verdict.measure)}",
            f"share {result.share:.2f}{ends(result.share_interval, '.2f')}",
        ]
    if verdict.drawn and result.learned and result.others:
        others = "they do not" if result.learned.asked else "networks do not learn"
        strata = {learned_words(verdict): result.learned, others: result.others}
        parts += [f"where {who} {among(stratum)}" for who, stratum in strata.items() if stratum.asked]
    if verdict.drawn and verdict.confidence != 1 - ALPHA:
        parts.append(f"intervals of {100 * verdict.confidence:.4g}%, as the protocol was amended")
    return "; ".join(parts + beside_count(result, drawn=verdict.drawn))


def learned_words(verdict: Verdict) -> str:
    """What is meant by settings that have learned."""
    return "networks learn at full length" if verdict.early else "networks learn"


def median(result: Count, measure: str) -> str:
    """The median effect over settings with its interval."""
    return stated(result.comparison, measure, result.median, result.median_interval)


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
        parts.append(
            f"by the seeds of each setting clear in {there}, clearly not in {elsewhere}, open in {neither}"
        )
    if signs := result.direction:
        p = "< 0.001" if signs.p < 0.001 else f"{signs.p:.2g}"
        parts.append(f"the sign is the claimed one in {signs.claimed} of {signs.of} (p {p})")
    if result.ceiling is not None:
        most = f"{result.ceiling:.0f} of {result.asked}"
        parts.append(f"one arm at two different seeds would hold in about {most}")
    if drawn and result.moderators:
        parts.append(dependence(result))
    lost = {arm: n for arm, n in result.failures.items() if n}
    if failed := [f"{n} of {result.runs[arm]} with {arm}" for arm, n in lost.items()]:
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


def among(counted: Share) -> str:
    """`20 of 25 (0.59 to 0.93)`"""
    return f"{counted.holds} of {counted.asked}{ends(counted.share_interval, '.2f')}"


def numbers_of(verdict: Verdict, *, asked: bool = True) -> str:
    """The numbers behind a word, and with `asked` the question, to stand behind a colon: only its later sentences begin
    with a capital. None before all drawn settings are finished."""
    measure = verdict.measure
    universal = not verdict.counts and all(one.comparison.rule.universal for one in told(verdict))
    if verdict.word == Word.BEGUN:
        lines = ["nothing is counted before all settings are finished"]
    elif verdict.counts:
        lines = [over_settings(result, verdict) for result in verdict.counts]
        if len(lines) > 1:
            names = [effect_name(result.comparison) for result in verdict.counts]
            lines = [f"{name}: {text}" for name, text in zip(names, lines, strict=True) if text]
    elif of_arms := by_arm(verdict, asked=asked):
        return "; ".join(of_arms)
    elif universal:
        lines = [values_of(verdict)]
    else:
        lines = ["; ".join(_number_of(one, verdict) for one in told(verdict))]
    if asked:
        several = not universal and len(verdict.counts or told(verdict)) > 1
        questions = dict.fromkeys(
            (f"{effect_name(result.comparison)}: " if several else "") + question(result.comparison, measure)
            for result in verdict.comparisons
        )
        lines.append(f"the claim: {', '.join(questions)}")
    first, *more = filter(None, lines) if any(lines) else [""]
    return ". ".join([first, *map(capital, more)])


def told(verdict: Verdict) -> Sequence[Judgement]:
    """The judgements whose numbers are told: of networks all of them; of exact values the one that decides."""
    return (verdict.deciding,) if verdict.evidence == "law" else verdict.judgements


def _number_of(judged: Judgement, verdict: Verdict) -> str:
    """The effect of a mean, or the values of which a universal sentence beside it speaks."""
    if not judged.comparison.rule.universal:
        return stated(judged.comparison, verdict.measure, judged.effect, judged.interval)
    return f"{effect_name(judged.comparison)} {span(verdict, *judged.interval)}"


def by_arm(verdict: Verdict, *, asked: bool = True) -> list[str]:
    """Of universal sentences about several arms a line for each: its values, and with `asked` its own bound."""
    judged = [judgement for judgement in verdict.judgements if judgement.comparison.rule.universal]
    if len({arm for judgement in judged for arm in judgement.ranges}) < 2:
        return []
    lines = []
    for judgement in judged:
        level = judgement.comparison.at
        at = "" if level is None else f" at {level}"
        for arm, ranges in judgement.ranges.items():
            claimed = f"; claimed: {bounds(judgement.comparison, arm)}" if asked else ""
            lines.append(f"{arm}{at}: {', '.join(_levels(verdict, ranges))}{claimed}")
    for one in told(verdict):  # of a sentence with means beside
        if not one.comparison.rule.universal:
            claimed = f"; claimed: {question(one.comparison, verdict.measure)}" if asked else ""
            lines.append(f"{_number_of(one, verdict)}{claimed}")
    return lines


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
    low, high = verdict.deciding.interval
    text = span(verdict, low, high)
    return f"all values from {text}" if " to " in text else f"all values {text}"


def span(verdict: Verdict, low: float, high: float) -> str:
    """`0.2 to 3`; one number where both ends read the same."""
    return " to ".join(dict.fromkeys(rounded(verdict, end) for end in (low, high)))


def rounded(verdict: Verdict, value: float) -> str:
    """A value with three digits; 0 where a relative change is that of float64."""
    return "0" if verdict.measure.startswith("relative") and abs(value) < ROUNDING else number(value)


def scope(verdict: Verdict) -> str:
    """Where the word holds: in how many settings each comparison does, and whether that was registered before; or the
    cases of a universal sentence."""
    if not verdict.counts:
        if verdict.searched and verdict.word == Word.REFUTED:
            return f"by a counterexample, after a search of {verdict.cases} cases"
        return f"in {verdict.cases} cases" if verdict.word == Word.NO_COUNTEREXAMPLE else ""
    if verdict.word == Word.BEGUN:
        what = f"{len(verdict.settings)} of {verdict.needed} drawn settings are finished"
    else:
        kind = "drawn" if verdict.drawn else "hand-picked"
        what = "; ".join(held_in(result, kind, several=len(verdict.counts) > 1) for result in verdict.counts)
    return ", ".join(filter(None, (what, lateness(verdict))))


def lateness(verdict: Verdict) -> str:
    """Of drawn settings, whether the protocol was fixed before the runs; empty if it was."""
    if runs := verdict.before_registration:
        return f"registered after {runs.started:,} of {runs.of:,} runs"
    return "" if verdict.registered or not verdict.drawn else "unregistered"


def held_in(result: Count, kind: str, *, several: bool) -> str:
    """In how many settings a comparison holds; of several with its name and word."""
    name = f"{effect_name(result.comparison)}: " if several else ""
    word = f"{result.word}, " if several and result.word != Word.COUNTED else ""
    cannot = f", cannot be asked in {result.failed}" if result.failed else ""
    where = f"{holds_in(result.comparison)} in {result.holds} of {result.asked} {kind} settings"
    return f"{name}{word}{where}{cannot}"


def note(verdict: Verdict) -> str:
    """What limits the word, beside its scope."""
    parts, begun = [], verdict.word == Word.BEGUN
    if verdict.withdrawn and not begun:
        parts.append(f"withdrawn: {verdict.withdrawn}")
    if not verdict.counts:
        return "; ".join(filter(None, [*parts, note_of_values(verdict.deciding)]))
    if (check := verdict.manipulation) and not check.held:
        parts.append(not_held(check))
    if verdict.drawn and not begun:
        if verdict.repeated:
            draws = verdict.repeated + len(verdict.settings)
            parts.append(f"{verdict.repeated} of {draws} draws were the same network as an earlier one")
        if any(result.asked < FEWEST_SETTINGS for result in verdict.counts):
            parts.append(f"no word is possible with fewer than {FEWEST_SETTINGS} settings")
        if verdict.few:
            parts.append(few_settings(verdict.few))
    return "; ".join(parts)


def not_held(check: Check) -> str:
    """That a manipulation check failed, and what follows."""
    if check.held:
        return ""
    text = f"the manipulation check holds in {check.holds} of {check.asked}"
    return f"{text}, so nothing is said of the cause ({check.measure})"


def note_of_values(judged: Judgement) -> str:
    """What limits a judgement in one setting: counterexamples, values that are not finite, failed runs."""
    if judged.worst:
        return counterexample(judged) if judged.failing else ""
    lost = judged.seeds - judged.n_seeds
    if lost and not judged.trained:
        return f"{lost} of {judged.seeds} values are not finite"
    if judged.n_seeds < FEWEST_SEEDS:
        return f"every arm trained at {judged.n_seeds} of {judged.seeds} seeds"
    parts = [f"{lost} of {judged.seeds} seeds are left out, in which a run failed"] if lost else []
    if judged.unreached:
        parts.append(never_reached(judged.unreached))
    if judged.unresolved:
        parts.append("all effects are equal, so the measure resolves too little")
    return "; ".join(parts)


def counterexample(judged: Judgement) -> str:
    """How many cases fail, and the worst of them."""
    worst = judged.worst
    assert worst is not None  # of a universal sentence
    before = "with" if isinstance(worst.level, str) else "at level"
    only = f", all {before} {worst.level}" if judged.alone else ""
    level = f", {worst.level}" if worst.level != "" and not judged.alone else ""
    where = worst.text or f"{worst.arm}{level}, seed {worst.seed}"
    return f"{judged.failing} of {judged.cases} cases fail{only}, the worst: {where}"


def method(judged: Judgement) -> str:
    """How a comparison in one setting was judged."""
    if not judged.worst:
        return "paired t"
    return "counterexample" if judged.failing else f"no counterexample in {judged.cases} cases"


def few_settings(few: Few) -> str:
    """Why a claim rests on fewer drawn settings than most do."""
    kinds = " and ".join(f"{key} {' or '.join(choices)}" for key, choices in few.where.items())
    text = f"few settings: {few.fitting} of the {few.cells} of bank={few.bank} have {kinds}"
    text = text if kinds else f"few settings: bank={few.bank} has {few.fitting}"
    budget = f", of which the claim's budget of training pays for the first {few.first}"
    return text + budget if few.first < few.fitting else text


def does_not_show(limits: Limits) -> str:
    """What a claim does not show: a sentence by its evidence, and the claim's own one, if it has one."""
    sentences = [_beyond(limits), "It does not exclude differences below its margin." if limits.equal else ""]
    if limits.own:
        sentences.append(f"Nor does it show: {limits.own[0].lower()}{limits.own[1:]}")
    return " ".join(filter(None, sentences))


def _beyond(limits: Limits) -> str:
    where = looked_at(limits)
    if limits.evidence == "law":
        return (
            "This does not show what it does to training: values were computed, and no network was trained."
        )
    if limits.evidence == "initialization":
        of = f" of {where}" if where else ""
        return f"This does not show what training makes of it: the networks{of} have their initial weights."
    if limits.drawn:
        return f"This does not show what holds outside its population: {where}."
    if limits.chosen:
        return f"This does not show how often it holds: somebody chose these settings ({where})."
    return f"This does not show what holds in other settings than this one: {where}."


def looked_at(limits: Limits) -> str:
    """`MLP, CNN on MNIST, at most depth 12, width 256, 6,000 updates`; empty if no override says it."""
    subject = " on ".join(filter(None, (_names(limits.models), _names(limits.data))))
    first = ("depth", "width")  # the name of which comes before its number
    sizes = [f"{name} {n:,g}" if name in first else f"{n:,g} {name}" for name, n in limits.sizes.items()]
    return ", ".join(filter(None, (subject, f"at most {', '.join(sizes)}" if sizes else "")))


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def title(verdict: Verdict, *, upper: bool = False) -> str:
    """The id and the word with its scope."""
    return f"{verdict.id}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


def with_scope(verdict: Verdict, *, upper: bool = False) -> str:
    """The word with its scope: "supported: beyond the margin in 20 of 24 drawn settings"; counts alone where they make
    no word; in one setting its effect."""
    word, where = verdict.word, scope(verdict)
    if word == Word.COUNTED:
        return where
    if word in (Word.HOLDS_HERE, Word.NOT_SHOWN_HERE):
        where = f"{verdict.n_seeds} seeds"
        effect = f"{number(verdict.effect)}{ends(verdict.interval)}, "
        # On the screen the line of the effect follows.
        where = f"over {where}" if upper else f"{effect}{where}"
    says = word.upper() if upper else word
    margin = verdict.comparison.size
    if margin < 0:  # the sentence alone would say more
        where = f"{where}; being up to {number(-margin)} worse was allowed".lstrip("; ")
    if not where:
        return says
    return f"{says}{' ' if where.startswith(('in ', 'by ', 'over ')) else ': '}{where}"


def paragraph(verdict: Verdict, width: int = WIDTH) -> str:
    """The text for the screen, in lines of at most `width` letters: the sentence, its numbers, what it rests on."""
    beside = note(verdict)
    rests = [verdict.means, capital(f"{beside}.") if beside else ""]
    judged = () if verdict.counts else (verdict.deciding, *told(verdict))
    means = (one for one in judged if not one.comparison.rule.universal and math.isfinite(one.effect))
    if mean := next(means, None):
        over = f"{'the differences of ' if mean.comparison.baseline else ''}{mean.n_seeds} seeds"
        rests.insert(0, f"In brackets the {100 * (1 - ALPHA):.4g}% interval over {over} ({method(mean)}).")
    lines = [f"{title(verdict, upper=True)}: {verdict.sentence}"]
    if arms := by_arm(verdict):
        lines += [f"{verdict.measure}:", *(f"    {line}" for line in arms)]
    else:
        lines.append(f"{verdict.measure}: {numbers_of(verdict)}.")
    lines.append(" ".join(filter(None, rests)))
    if verdict.as_expected is False:
        expected = f"mathematics says {verdict.expected}"
        lines.append(f"UNEXPECTED: {expected}; look for an error before you believe this.")
    lines += [does_not_show(verdict.limits), f"source: {verdict.source}"]

    def filled(line: str) -> str:
        return textwrap.fill(line, width, subsequent_indent=" " * (8 if line.startswith(" ") else 4))

    return "\n".join(map(filled, filter(None, lines)))
