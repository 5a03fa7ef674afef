"""The front page of findings: at most ten sentences, what is known of them, how sure, where, and a figure each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.table import EVIDENCE, values_of
from normexp.claims.judge import plain_words as words
from normexp.claims.judge.plain_words import capital, comparison_in, effect_name
from normexp.claims.judge.settings_count import FEWEST, word_of
from normexp.claims.pages import markdown_page, markdown_table
from normexp.claims.pages.figure import draw
from normexp.claims.pages.verdicts_page import holm_words
from normexp.claims.spec.claim import Claim
from normexp.runs.files import write_text

MOST = 10
# In this order since before the bank was judged, so that no result chose them: first questions to drawn settings, then
# exact ones, then counts of settings that somebody chose. The first ten that are judged stand on the page.
QUESTIONS = (
    *("P06a", "P08", "P10", "P01", "P13", "P05", "S32", "S22", "P19", "P07c", "S91", "P09", "S90", "S47"),
    *("S31", "X09", "X10", "X11", "P17b", "P17", "P10a", "P06b"),
)
DRAWN_TOO = ("S06b",)  # README shows it
SPANS = ("updates", "batch size", "depth", "width")


def write_findings(path: Path, claims: Mapping[str, Claim], verdicts: Mapping[str, dict[str, Any]]) -> str:
    """Write the page and its figures. Returns a line on it."""
    left_out = (words.BEGUN, words.WITHDRAWN_WORD)
    told = {name: own for name, own in verdicts.items() if own["verdict"] not in left_out}
    chosen = [told[name] for name in QUESTIONS if name in told][:MOST]
    rows = [
        finding(claims[verdict["id"]], verdict) | {"holm": capital(holm_words(verdict, verdicts))}
        for verdict in chosen
    ]
    for verdict in chosen + [told[name] for name in DRAWN_TOO if name in told]:
        claim = claims[verdict["id"]]
        table = pd.DataFrame() if verdict["settings"] else values_of(EVIDENCE, claim)
        if table is not None:
            figure = path.parent / "images" / f"finding_{claim.id}.png"
            draw(table, verdict, figure, next(iter(claim.factor), ""))
    withdrawn = [name for name in QUESTIONS if name in claims and claims[name].withdrawn]
    missing = [name for name in QUESTIONS if name not in told and name not in withdrawn]
    write_text(path, markdown_page("findings.md.j2", rows=rows, missing=missing, withdrawn=withdrawn))
    drawn = sum(bool(verdict["settings"]) and verdict["drawn"] for verdict in chosen)
    found = f"{len(rows)} findings, {drawn} over drawn settings"
    return f"{path}: {found}; {len(missing)} questions not judged yet"


def finding(claim: Claim, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a finding in words."""
    return {
        "id": claim.id,
        "sentence": claim.sentence,
        "known": answer(verdict),
        "counts": counts(verdict),
        "effects": effects(verdict),
        "beside": beside(verdict),
        "limit": claim.does_not_show,
        "where": where(claim, verdict),
        "source": claim.source,
    }


def answer(verdict: Mapping[str, Any]) -> str:
    """What is known, in a few words, of several comparisons each: where networks learn, and over all drawn settings."""
    if not verdict["settings"]:
        return capital(verdict["verdict"])
    told, where_learned = [], words.learned_words(verdict)
    for result in verdict["comparisons"]:
        learned = result["learned"]
        known = learned and learned["asked"] >= FEWEST  # else nobody knows it, or of too few
        every, in_all = result["word"], f"{result['holds']} of {result['asked']}"
        word = word_of(learned["share_interval"]) if known else every
        if word == words.COUNTED:
            told.append(f"holds in {in_all} hand-picked settings")
        elif not known:
            told.append(word)
        elif word == every:
            told.append(f"{word} where {where_learned}, and over all settings")
        else:
            in_learned = f"{learned['holds']} of {learned['asked']}"
            told.append(f"{word} where {where_learned} ({in_learned}), {every} over all settings ({in_all})")
    if len(told) == 1:
        return capital(told[0])
    names = [effect_name(comparison_in(result)) for result in verdict["comparisons"]]
    return capital("; ".join(f"{name}: {text}" for name, text in zip(names, told, strict=True)))


def counts(verdict: Mapping[str, Any]) -> str:
    """A table: in how many settings it holds where networks learn, in the others and in all, with the share's
    interval."""
    if not verdict["settings"]:
        return ""
    several, rows = len(verdict["comparisons"]) > 1, []
    every = "all drawn" if verdict["drawn"] else "all hand-picked"
    for result in verdict["comparisons"]:
        learned = words.learned_words(verdict).replace("networks", "that networks")
        strata = {learned: result["learned"], "others": result["others"], every: result}
        for stratum, own in strata.items():
            if own and own["asked"]:
                share = f"{own['share']:.2f}{words.ends(own['share_interval'], '.2f')}" * verdict["drawn"]
                name = [effect_name(comparison_in(result))] * several
                rows.append([*name, stratum, f"{own['holds']} of {own['asked']}", share])
    return markdown_table(
        ["comparison"] * several
        + ["settings", "it holds in", f"share, {100 * verdict['level']:.4g}% interval"],
        rows,
    )


def effects(verdict: Mapping[str, Any]) -> list[str]:
    """What is measured, what is claimed and the median over settings, a line for each comparison; of a law its
    values."""
    measured = f"*Measured*: {verdict['measure']}."
    if not verdict["settings"]:
        return [f"{measured} *Seen*: {words.numbers_of(verdict, asked=False)}, {verdict['method']}."]
    lines = []
    for result in verdict["comparisons"]:
        line = f"{measured} *Claimed*: {words.question(comparison_in(result), verdict['measure'])}."
        if result["median"] is not None:
            line += f" *Median over settings*: {words.median(result, verdict['measure'])}."
        lines.append(line)
    return lines


def beside(verdict: Mapping[str, Any]) -> list[str]:
    """What limits it, a sentence each."""
    told = [capital(verdict["scope"])] if not verdict["settings"] else []
    for result in verdict["comparisons"] if verdict["settings"] else ():
        name = f"{effect_name(comparison_in(result))}: " if len(verdict["comparisons"]) > 1 else ""
        parts = words.beside_count(result, drawn=verdict["drawn"])
        told += [name + (part if name else capital(part)) for part in parts]
    told.append(capital(verdict["note"]))
    late = verdict["scope"].rpartition(", ")[2]
    if late.startswith("registered after"):
        told.append(f"{capital(late)} had started, which it shares with the bank")
    if verdict["settings"] and not verdict["drawn"]:
        told.append("Nobody drew these settings, so this says nothing about others")
    return [f"{text}." for text in told if text]


def where(claim: Claim, verdict: Mapping[str, Any]) -> str:
    """What was measured: data and models of the settings, and their sizes where the claim itself sets none."""
    labels = [row["labels"] for row in verdict["settings"]]
    if not labels:
        return "A property of the layer or of a network's start, whatever it is trained on."
    parts = [", ".join(sorted({own[key] for own in labels if key in own})) for key in ("data", "model")]
    for name in SPANS:
        if numbers := [float(own[name]) for own in labels if name in own]:
            ends = dict.fromkeys((min(numbers), max(numbers)))
            parts.append(f"{name} {' to '.join(f'{end:,g}' for end in ends)}")
    return f"{'; '.join(filter(None, parts))}."
