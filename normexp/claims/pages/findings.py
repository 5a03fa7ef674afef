"""The front page of findings: at most ten sentences, what is known of them, how sure, where, and a figure each."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from normexp.claims import numbers, units, words
from normexp.claims.evidence.table import EVIDENCE, values_of
from normexp.claims.judge.settings_count import word_of
from normexp.claims.judge.verdict import FEWEST_SETTINGS, Verdict, Word
from normexp.claims.pages.figure import draw
from normexp.claims.pages.markdown import markdown_page, markdown_table
from normexp.claims.pages.verdicts import family_of, stays_in_words
from normexp.claims.spec.claim import Claim
from normexp.claims.units import capital, effect_name
from normexp.format import pluralize
from normexp.runs.files import write_text

MOST_FINDINGS = 10
# In this order since before the bank was judged, so that no result chose them: first questions to drawn settings, then
# exact ones, then counts of settings that somebody chose. The first ten that are judged stand on the page.
QUESTIONS = (
    *("P06a", "P08", "P10", "P01", "P13", "P05", "S32", "S22", "P19", "P07c", "S91", "P09", "S90", "S47"),
    *("S31", "X09", "X10", "X11", "P17b", "P17", "P10a", "P06b"),
)
DRAWN_TOO = ("S06b",)  # README shows it
SPANS = ("updates", "batch size", "depth", "width")


def write_findings(path: Path, claims: Mapping[str, Claim], verdicts: Mapping[str, Verdict]) -> str:
    """Write the page and its figures. Returns a line on it."""
    no_answer = (Word.BEGUN, Word.WITHDRAWN)
    judged = {name: verdict for name, verdict in verdicts.items() if verdict.word not in no_answer}
    chosen = [judged[name] for name in QUESTIONS if name in judged][:MOST_FINDINGS]
    family = family_of(verdicts)
    for verdict in chosen + [judged[name] for name in DRAWN_TOO if name in judged]:
        table = pd.DataFrame() if verdict.counts else values_of(EVIDENCE, verdict.claim)
        if table is not None:
            draw(table, verdict, path.parent / "images" / f"finding_{verdict.claim.id}.png")
    withdrawn = [name for name in QUESTIONS if claims[name].withdrawn]
    missing = [claims[name] for name in QUESTIONS if name not in judged and name not in withdrawn]
    linked = [
        f"{claim.id} ([asked in another way]({claim.answered_in}))" if claim.answered_in else claim.id
        for claim in missing
    ]
    page = markdown_page(
        "findings.md.j2",
        verdicts=chosen,
        answer=answer, counts=counts, beside=beside, where=where, numbers=numbers, units=units, words=words,
        holm=lambda verdict: capital(stays_in_words(verdict, family)),
        missing=linked,
        withdrawn=withdrawn,
    )  # fmt: skip
    write_text(path, page)
    found = f"{pluralize(len(chosen), 'finding')}, {sum(verdict.claim.drawn for verdict in chosen)} over drawn settings"
    return f"{path}: {found}; {pluralize(len(missing), 'question')} not judged yet"


def answer(verdict: Verdict) -> str:
    """What is known, in a few words, of several comparisons each: where networks learn, and over all drawn settings."""
    if not verdict.counts:
        return capital(verdict.word)
    answers, where_learned = [], numbers.learned_words(verdict)
    for result in verdict.counts:
        learned, every = result.learned, result.word
        in_all = f"{result.holds} of {result.asked}"
        if every == Word.COUNTED:
            answers.append(f"holds in {in_all} hand-picked settings")
        elif learned is None or learned.asked < FEWEST_SETTINGS:  # nobody knows it, or of too few
            answers.append(every)
        elif (word := word_of(learned.share_interval)) == every:
            answers.append(f"{word} where {where_learned}, and over all settings")
        else:
            in_learned = f"{learned.holds} of {learned.asked}"
            answers.append(
                f"{word} where {where_learned} ({in_learned}), {every} over all settings ({in_all})"
            )
    return capital("; ".join(numbers.named(verdict, answers)))


def counts(verdict: Verdict) -> str:
    """A table: in how many settings it holds where networks learn, in the others and in all, with the share's
    interval."""
    if not verdict.counts:
        return ""
    several, drawn, rows = len(verdict.counts) > 1, verdict.claim.drawn, []
    learned = numbers.learned_words(verdict).replace("networks", "that networks")
    every = "all drawn" if drawn else "all hand-picked"
    for result in verdict.counts:
        for stratum, count in {learned: result.learned, "others": result.others, every: result}.items():
            if count and count.asked:
                share = f"{count.share:.2f}{units.ends(count.share_interval, '.2f')}" if drawn else ""
                name = [effect_name(result.comparison)] if several else []
                rows.append([*name, stratum, f"{count.holds} of {count.asked}", share])
    columns = ["settings", "it holds in", f"share, {100 * verdict.confidence:.4g}% interval"]
    return markdown_table(["comparison", *columns] if several else columns, rows)


def beside(verdict: Verdict) -> list[str]:
    """What limits it, a sentence each."""
    lines = [] if verdict.counts else [capital(words.scope(verdict))]
    for result in verdict.counts:
        name = f"{effect_name(result.comparison)}: " if len(verdict.counts) > 1 else ""
        parts = numbers.beside_count(result, drawn=verdict.claim.drawn)
        lines += [name + (part if name else capital(part)) for part in parts]
    lines.append(capital(words.note(verdict)))
    if verdict.late:
        lines.append(f"{capital(words.lateness(verdict))} had started, which it shares with the bank")
    if verdict.counts and not verdict.claim.drawn:
        lines.append("Nobody drew these settings, so this says nothing about others")
    return [f"{text}." for text in lines if text]


def where(verdict: Verdict) -> str:
    """What was measured: data and models of the settings, and their sizes where the claim itself sets none."""
    labels = [row.labels for row in verdict.settings]
    if not labels:
        return "A property of the layer or of a network's start, whatever it is trained on."
    parts = [", ".join(sorted({row[key] for row in labels if key in row})) for key in ("data", "model")]
    for name in SPANS:
        if sizes := [float(row[name]) for row in labels if name in row]:
            ends = dict.fromkeys((min(sizes), max(sizes)))
            parts.append(f"{name} {' to '.join(f'{end:,g}' for end in ends)}")
    return f"{'; '.join(filter(None, parts))}."
