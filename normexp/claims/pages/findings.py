"""The front page of findings: at most ten sentences, what is known of them, how sure, where, and a figure each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.table import PLACE, values_of
from normexp.claims.judge.plain_words import (
    BEGUN,
    DIVIDED,
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    WITHDRAWN_WORD,
    capital,
    comparison_in,
    effect_name,
    numbers_of,
)
from normexp.claims.judge.settings_count import FEWEST, word_of
from normexp.claims.pages import markdown_page
from normexp.claims.pages.figure import draw
from normexp.claims.spec.cell import value_of
from normexp.claims.spec.claim import Claim
from normexp.runs.files import write_text

MOST = 10
# In this order since before the bank was judged, so that no result chose them: first questions to drawn settings, then
# exact ones, then counts of settings that somebody chose. The first ten that are judged stand on the page.
QUESTIONS = (
    *("P06a", "P08", "P10", "P01", "P13", "P05", "S32", "S22", "P19", "P07c", "S91", "P09", "S90", "S47"),
    *("S31", "X09", "X10", "X11", "P17b", "P17", "P10a", "P06b"),
)
SPANS = {"updates": "max_steps", "batch size": "batch_size", "depth": "model.depth", "width": "model.width"}


def write_findings(
    path: Path,
    claims: Mapping[str, Claim],
    verdicts: Mapping[str, dict[str, Any]],
    root: Path,
) -> str:
    """Write the page and its figures. Returns a line on it."""
    verdicts = {
        name: verdict
        for name, verdict in verdicts.items()
        if verdict["verdict"] not in (BEGUN, WITHDRAWN_WORD)
    }
    chosen = [verdicts[name] for name in QUESTIONS if name in verdicts][:MOST]
    rows = [finding(claims[verdict["id"]], verdict) for verdict in chosen]
    for verdict in chosen:
        table = pd.DataFrame() if verdict["settings"] else values_of(root / PLACE, claims[verdict["id"]])
        if table is not None:
            draw(table, verdict, path.parent / "images" / f"finding_{verdict['id']}.png")
    missing = [name for name in QUESTIONS if name not in verdicts]
    write_text(path, markdown_page("findings.md.j2", rows=rows, missing=missing))
    drawn = sum(bool(verdict["settings"]) and verdict["drawn"] for verdict in chosen)
    return (
        f"{path}: {len(rows)} findings, {drawn} over drawn settings; {len(missing)} questions not judged yet"
    )


def finding(claim: Claim, verdict: Mapping[str, Any]) -> dict[str, str]:
    """The parts of a finding in words."""
    return {
        "id": claim.id,
        "sentence": claim.sentence,
        "known": answer(verdict),
        "sure": how_sure(verdict),
        "where": where(claim, verdict),
        "source": claim.source,
    }


def answer(verdict: Mapping[str, Any]) -> str:
    """What is known, in a few words: of drawn settings those that networks learn, of several comparisons each."""
    if not verdict["settings"]:
        return capital(verdict["verdict"])
    words = []
    for result in verdict["comparisons"]:
        learned = result["learned"]
        known = learned and learned["asked"] >= FEWEST  # else nobody knows it, or of too few
        word = word_of(learned["share_interval"]) if known else result["word"]
        if word in (SUPPORTED, REFUTED, DIVIDED, UNDECIDED):
            words.append(f"{capital(word)}{' where networks learn' if known else ''}")
        else:
            words.append(f"Holds in {result['holds']} of {result['asked']} hand-picked settings")
    if len(words) == 1:
        return words[0]
    names = [effect_name(comparison_in(result)) for result in verdict["comparisons"]]
    return "; ".join(f"{name}: {word}" for name, word in zip(names, words, strict=True))


def how_sure(verdict: Mapping[str, Any]) -> str:
    """The counts and intervals behind it."""
    if not verdict["settings"]:
        return f"{capital(verdict['scope'] or verdict['note'])}."
    chosen = "drawn" if verdict["drawn"] else "hand-picked"
    counts = " and ".join(f"{result['holds']} of {result['asked']}" for result in verdict["comparisons"])
    numbers = numbers_of(verdict)
    told = [
        f"it holds in {counts} {chosen} settings",
        f"{verdict['measure']}: {numbers[0].lower()}{numbers[1:]}",
        verdict["note"],
    ]
    if not verdict["drawn"]:
        told.append("Nobody drew these settings, so this says nothing about others")
    return " ".join(f"{capital(text)}." for text in told if text)


def where(claim: Claim, verdict: Mapping[str, Any]) -> str:
    """What was measured: data and models of the settings, and their sizes where the claim itself sets none."""
    labels = [row["labels"] for row in verdict["settings"]]
    if not labels:
        return "A property of the layer or of a network's start, whatever it is trained on."
    words = [", ".join(sorted({own[key] for own in labels if key in own})) for key in ("data", "model")]
    own_words = [*claim.fixed, *(word for arm in claim.arms.values() for word in arm)]
    for name, key in SPANS.items():
        numbers = [float(own[name]) for own in labels if name in own]
        if numbers and key not in claim.factor and not value_of(key, own_words):
            ends = dict.fromkeys((min(numbers), max(numbers)))
            words.append(f"{name} {' to '.join(f'{end:,g}' for end in ends)}")
    return f"{'; '.join(filter(None, words))}."
