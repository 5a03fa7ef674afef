"""The front page of findings: at most ten sentences, what is known of them, how sure, where, and a figure each."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.evidence.table import PLACE, values_of
from normexp.claims.judge.effect_words import compared, describe_question
from normexp.claims.judge.limits import chosen_by
from normexp.claims.judge.plain_words import (
    BEGUN,
    DIVIDED,
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    WITHDRAWN_WORD,
    capital,
    in_words,
)
from normexp.claims.judge.settings_count import FEWEST, word_of
from normexp.claims.pages import markdown_page
from normexp.claims.pages.figure import draw
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
    results = verdict["comparisons"]
    words = [_answer(result) for result in results]
    if len(words) == 1:
        return words[0]
    return "; ".join(
        f"{compared(result['comparison'])}: {word}" for result, word in zip(results, words, strict=True)
    )


def _answer(result: Mapping[str, Any]) -> str:
    word = word_where_learned(result)
    if word not in (SUPPORTED, REFUTED, DIVIDED, UNDECIDED):
        return f"Holds in {result['holds']} of {result['asked']} hand-picked settings"
    learned = result["learned"] and result["learned"]["asked"] >= FEWEST
    return f"{capital(word)}{' where networks learn' if learned else ''}"


def word_where_learned(result: Mapping[str, Any]) -> str:
    """The word of a comparison among settings that networks learn; of all where that is not known, or too few."""
    learned = result["learned"]
    return word_of(learned["share_interval"]) if learned and learned["asked"] >= FEWEST else result["word"]


def how_sure(verdict: Mapping[str, Any]) -> str:
    """The counts and intervals behind it."""
    if not verdict["settings"]:
        if scope := verdict["scope"]:
            return f"{capital(scope)}."
        seen = "found" if verdict["verdict"] == SUPPORTED else "not found"
        question = describe_question(verdict["comparison"])
        return (
            f"{capital(verdict['measure'])}: claimed is {question}, and it was {seen} with "
            f"{verdict['n_seeds']} seeds."
        )
    effect_text = capital(in_words(dict(verdict)))
    if not verdict["drawn"]:
        return f"{effect_text} Nobody drew these settings, so this says nothing about others."
    told = " ".join(map(_where_it_holds, verdict["comparisons"]))
    text = f"{told} {effect_text}"
    lost, of = (sum(arm[key] for arm in verdict["failures"].values()) for key in ("failed", "of"))
    text += f" {lost} of {of} runs failed, {verdict['failed_are']}." if lost else ""
    return f"{text} {capital(verdict['note'])}." if verdict["note"] else text


def _where_it_holds(result: Mapping[str, Any]) -> str:
    """`It holds in 19 of 25 drawn settings that networks learn (55 to 91% of all such), and in 16 of 23 others.`"""
    first, others = (result["learned"], result["others"]) if result["learned"] else (result, None)
    low, high = (f"{100 * end:.0f}" for end in first["share_interval"])
    which = "drawn settings that networks learn" if others else "drawn settings"
    rest = f", and in {others['holds']} of {others['asked']} others" if others and others["asked"] else ""
    text = f"It holds in {first['holds']} of {first['asked']} {which} ({low} to {high}% of all such){rest}"
    text += f"; in {result['failed']} it cannot be asked" if result["failed"] else ""
    if signs := result["direction"]:
        text += f"; the sign is the claimed one in {signs['claimed']} of {signs['of']}"
    if result["ceiling"] is not None:
        text += f"; two copies of one arm would score {result['ceiling']:.0f} of {result['asked']}"
    return f"{text}."


def where(claim: Claim, verdict: Mapping[str, Any]) -> str:
    """What was measured: the settings, with what the claim itself chooses in place of theirs, and their errors."""
    chosen = {name: chosen_by(claim, key) for name, key in SPANS.items()}
    if labels := [row["labels"] for row in verdict["settings"]]:
        return f"{spans(labels, chosen)}{errors_of(verdict)}."
    return "A property of the layer or of a network's start, whatever it is trained on."


def errors_of(verdict: Mapping[str, Any]) -> str:
    """The median error of each setting's best arm on each data set, where the claim is about errors."""
    if not verdict["measure"].startswith("share of wrong answers on test"):
        return ""
    best: dict[str, list[float]] = {}
    for row in verdict["settings"]:
        values = [means[row["name"]] for means in verdict["arms"].values() if row["name"] in means]
        if finite := [value for value in values if math.isfinite(value)]:
            best.setdefault(row["labels"].get("data", ""), []).append(min(finite))
    told = [f"{np.median(values):.0%} on {data}" for data, values in sorted(best.items()) if data]
    return f"; median error of the best arm {', '.join(told)}" if told else ""


def spans(labels: Sequence[Mapping[str, str]], chosen: Mapping[str, Sequence[float] | None]) -> str:
    """Data and models of settings, and from where to where they go: of updates the quartiles, since one setting may
    have many times as many as the others. `chosen` numbers stand in place of theirs."""
    words = [
        ", ".join(sorted({setting_labels[key] for setting_labels in labels if key in setting_labels}))
        for key in ("data", "model")
    ]
    for key in SPANS:
        numbers = chosen.get(key)
        if numbers is None:
            numbers = [float(setting_labels[key]) for setting_labels in labels if key in setting_labels]
        if key == "updates" and len(numbers) >= FEWEST:
            low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75))
            words.append(f"updates {low:,.0f} to {high:,.0f} in the middle half (median {middle:,.0f})")
        elif numbers:
            ends = dict.fromkeys((min(numbers), max(numbers)))
            words.append(f"{key} {' to '.join(f'{end:,g}' for end in ends)}")
    return "; ".join(filter(None, words))
