"""A verdict in English: the word with its scope, what limits it, what it does not show, title and paragraph. The
numbers behind it are in `numbers`. Nothing else in `claims` makes sentences, and nothing reads them."""

import math
import textwrap
from collections.abc import Sequence

from normexp.claims.judge.estimate import ALPHA
from normexp.claims.judge.limits import Few, Limits, few_of, limits_of
from normexp.claims.judge.verdict import FEWEST_SETTINGS, Check, Count, Judgement, Verdict, Word
from normexp.claims.numbers import by_arm, named, numbers_of, reported
from normexp.claims.units import capital, ends, holds_in, never_reached, number, worse
from normexp.format import pluralize, uncapitalized
from normexp.runs.table import FEWEST_SEEDS

WIDTH = 110  # of a paragraph in a file; a narrower screen has narrower lines
MOST_NAMED = 5  # models, data sets


def scope(verdict: Verdict) -> str:
    """Where the word holds: in how many settings each comparison does, and whether that was registered before; or the
    cases of a universal sentence."""
    if not verdict.counts:
        if verdict.claim.search and verdict.word == Word.REFUTED:
            return f"by a counterexample, after a search of {pluralize(verdict.cases, 'case')}"
        return f"in {pluralize(verdict.cases, 'case')}" if verdict.word == Word.NO_COUNTEREXAMPLE else ""
    if verdict.word == Word.BEGUN:
        what = f"{len(verdict.settings)} of {verdict.needed} drawn settings are finished"
    else:
        kind = "drawn" if verdict.claim.drawn else "hand-picked"
        several = len(verdict.counts) > 1
        what = "; ".join(
            named(verdict, [held_in(result, kind, several=several) for result in verdict.counts])
        )
    return ", ".join(filter(None, (what, lateness(verdict))))


def lateness(verdict: Verdict) -> str:
    """Of drawn settings, whether the protocol was fixed before the runs; empty if it was."""
    if late := verdict.late:
        return f"registered after {late.early:,} of {pluralize(late.of, 'run')}"
    return "" if verdict.registered or not verdict.claim.drawn else "unregistered"


def held_in(result: Count, kind: str, *, several: bool) -> str:
    """In how many settings a comparison holds; of several with its word."""
    word = f"{result.word}, " if several and result.word != Word.COUNTED else ""
    cannot = f", cannot be asked in {result.failed}" if result.failed else ""
    where = f"{holds_in(result.comparison)} in {result.holds} of {pluralize(result.asked, f'{kind} setting')}"
    return f"{word}{where}{cannot}"


def note(verdict: Verdict) -> str:
    """What limits the word, beside its scope."""
    claim, parts, begun = verdict.claim, [], verdict.word == Word.BEGUN
    if claim.withdrawn and not begun:
        parts.append(f"withdrawn: {claim.withdrawn}")
    if not verdict.counts:
        return "; ".join(filter(None, [*parts, note_of_values(verdict.deciding)]))
    if verdict.manipulation:
        parts.append(not_held(verdict.manipulation))
    if claim.drawn and not begun:
        if verdict.repeated:
            draws = verdict.repeated + len(verdict.settings)
            parts.append(f"{verdict.repeated} of {draws} draws were the same network as an earlier one")
        if any(result.asked < FEWEST_SETTINGS for result in verdict.counts):
            parts.append(f"no word is possible with fewer than {FEWEST_SETTINGS} settings")
        if few := few_of(claim):
            parts.append(few_settings(few))
    return "; ".join(filter(None, parts))


def not_held(check: Check) -> str:
    """That a manipulation check failed, and what follows; empty if it held."""
    if check.held:
        return ""
    text = f"the manipulation check holds in {check.holds} of {check.asked}"
    return f"{text}, so nothing is said of the cause ({check.measure})"


def note_of_values(judged: Judgement) -> str:
    """What limits a judgement in one setting: counterexamples, values that are not finite, failed runs."""
    if judged.worst:
        return counterexample(judged) if judged.failing else ""
    failed = judged.seeds - judged.n_seeds
    if failed and not judged.trained:
        return f"{failed} of {judged.seeds} values are not finite"
    if judged.n_seeds < FEWEST_SEEDS:
        return f"every arm trained at {judged.n_seeds} of {judged.seeds} seeds"
    parts = [f"{failed} of {judged.seeds} seeds are left out, in which a run failed"] if failed else []
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
    return "counterexample" if judged.failing else f"no counterexample in {pluralize(judged.cases, 'case')}"


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
        sentences.append(f"Nor does it show: {uncapitalized(limits.own)}")
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
    sizes = [
        f"{name} {n:,g}" if name in first else pluralize(n, name[:-1]) for name, n in limits.sizes.items()
    ]
    return ", ".join(filter(None, (subject, f"at most {', '.join(sizes)}" if sizes else "")))


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def title(verdict: Verdict, *, upper: bool = False) -> str:
    """The id and the word with its scope."""
    return f"{verdict.claim.id}{'  ' if upper else ': '}{with_scope(verdict, upper=upper)}"


def with_scope(verdict: Verdict, *, upper: bool = False) -> str:
    """The word with its scope: "supported: beyond the margin in 20 of 24 drawn settings"; counts alone where they make
    no word; in one setting its effect."""
    word, where = verdict.word, scope(verdict)
    if word == Word.COUNTED:
        return where
    if word in (Word.HOLDS_HERE, Word.NOT_SHOWN_HERE):
        # On the screen the line of the effect follows.
        before = "over " if upper else f"{number(verdict.effect)}{ends(verdict.interval)}, "
        where = f"{before}{pluralize(verdict.n_seeds, 'seed')}"
    says = word.upper() if upper else word
    if verdict.comparison.size < 0:  # the sentence alone would say more
        allowed = worse(verdict.comparison, verdict.claim.measure)
        where = f"{where}; being up to {allowed} was allowed".lstrip("; ")
    if not where:
        return says
    return f"{says}{' ' if where.startswith(('in ', 'by ', 'over ')) else ': '}{where}"


def paragraph(verdict: Verdict, width: int = WIDTH) -> str:
    """The text for the screen, in lines of at most `width` letters: the sentence, its numbers, what it rests on."""
    claim, beside = verdict.claim, note(verdict)
    rests = [claim.note, capital(f"{beside}.") if beside else ""]
    judged = () if verdict.counts else (verdict.deciding, *reported(verdict))
    means = (one for one in judged if not one.comparison.rule.universal and math.isfinite(one.effect))
    if mean := next(means, None):
        over = f"{'the differences of ' if mean.comparison.baseline else ''}{pluralize(mean.n_seeds, 'seed')}"
        rests.insert(0, f"In brackets the {100 * (1 - ALPHA):.4g}% interval over {over} ({method(mean)}).")
    lines = [f"{title(verdict, upper=True)}: {claim.sentence}"]
    if arms := by_arm(verdict):
        lines += [f"{claim.measure}:", *(f"    {line}" for line in arms)]
    else:
        lines.append(f"{claim.measure}: {numbers_of(verdict)}.")
    lines.append(" ".join(filter(None, rests)))
    if verdict.as_expected is False:
        error = "look for an error before you believe this."
        lines.append(f"UNEXPECTED: mathematics says {claim.expected}; {error}")
    lines += [does_not_show(limits_of(claim)), f"source: {claim.source}"]

    def filled(line: str) -> str:
        return textwrap.fill(line, width, subsequent_indent=" " * (8 if line.startswith(" ") else 4))

    return "\n".join(map(filled, filter(None, lines)))
