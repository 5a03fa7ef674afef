"""The verdict of a claim as people read it and as `verdict.json` keeps it."""

import math
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.judge.decide import judge, overall
from normexp.claims.spec.claim import Claim
from normexp.runs.whole_file import write_json

VERDICT = "verdict.json"
UNTUNED = (
    "untuned"  # the folder, beside a claim's own verdict, of what comes out where no learning rate is tuned
)
UNTESTABLE = "cannot be tested"


def make_verdict(claim: Claim, table: pd.DataFrame, *, looks: int, extra: dict[str, Any]) -> dict[str, Any]:
    """Judge a claim's evidence; `looks` is how many times it may be judged in all.

    The keys `effect`, `interval`, `p_raw` and the like belong to the comparison that decided; `comparisons` has all.
    """
    judgements = judge(table, claim.comparisons, better=claim.better, looks=looks)
    word, deciding = overall(judgements)
    kept = asdict(deciding)
    return {
        "id": claim.id,
        "name": claim.name,
        "sentence": claim.sentence,
        "verdict": word,
        **{key: kept[key] for key in ("effect", "interval", "level", "n_seeds")},
        "measure": claim.measure,
        "source": claim.source,
        "covers": list(claim.covers),
        "evidence": claim.evidence,
        **{key: kept[key] for key in ("method", "p_raw", "p_adjusted", "more_seeds", "note", "comparison")},
        "means": claim.note,
        "expected": claim.expected,
        "as_expected": None if claim.expected is None else word == claim.expected,
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arm_means(table),
        "budget": claim.budget,
        "protocol": claim.protocol,
        **extra,
    }


def untestable(claim: Claim, command: str) -> dict[str, Any]:
    """The record of a sentence that no evidence could decide, with the reason."""
    return {
        "id": claim.id,
        "name": claim.name,
        "sentence": claim.sentence,
        "verdict": UNTESTABLE,
        **{"effect": None, "interval": None, "level": None, "n_seeds": 0},
        "measure": claim.measure,
        "source": claim.source,
        "covers": list(claim.covers),
        "evidence": claim.evidence,
        "reason": claim.reason,
        "budget": claim.budget,
        "protocol": claim.protocol,
        "untuned": False,
        "seconds": 0.0,
        "command": command,
    }


def arm_means(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Mean value of each arm at each level of the factor, over the seeds."""
    means: dict[str, dict[str, float]] = {}
    for (arm, factor), rows in table.groupby(["arm", "factor"], sort=False):
        means.setdefault(str(arm), {})[str(factor)] = float(rows["value"].mean())
    return means


def write_verdict(folder: Path, verdict: dict[str, Any]) -> None:
    """Write `verdict.json`, atomically. Numbers that are not finite become text: JSON has no infinity."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / VERDICT, _plain(verdict))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def paragraph(verdict: dict[str, Any]) -> str:
    """What a person reads on the screen."""
    low, high = verdict["interval"]
    universal = verdict["comparison"]["kind"] == "every"
    span = f"all values from {low:.4g} to {high:.4g}" if universal else (
        f"{verdict['level']:.4g} interval {low:.4g} to {high:.4g}, {verdict['method']}"
    )  # fmt: skip
    effect = "decisive value" if universal else describe_effect(verdict["comparison"])
    lines = [
        f"{title(verdict, upper=True)}: {verdict['sentence']}",
        f"{verdict['measure']}: {effect} {verdict['effect']:.4g} ({span}, {verdict['n_seeds']} seeds); "
        f"asked: {describe_question(verdict['comparison'])}."
        + (f" {verdict['note'][0].upper()}{verdict['note'][1:]}." if verdict["note"] else "")
        + (f" {verdict['means']}" if verdict["means"] else ""),
    ]
    if verdict["as_expected"] is False:
        lines.append(
            f"UNEXPECTED: mathematics says {verdict['expected']}; look for an error before you believe this."
        )
    lines.append(f"source: {verdict['source']}")
    return "\n".join(textwrap.fill(line, 110, subsequent_indent="    ") for line in lines)


def title(verdict: dict[str, Any], *, upper: bool = False) -> str:
    """The id and the word, which says so where nobody's learning rate was tuned though the claim asks for it."""
    word = verdict["verdict"].upper() if upper else verdict["verdict"]
    return f"{verdict['id']}{' (untuned)' if verdict.get('untuned') else ''}{'  ' if upper else ': '}{word}"


def describe_effect(comparison: dict[str, Any]) -> str:
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else None)
    what = f"{comparison['arm']} minus {against}" if against else comparison["arm"]
    if comparison["kind"] in ("increasing", "decreasing", "flat"):
        what = ("Kendall's tau of " if comparison.get("by") == "rank" else "slope of ") + what
        what += f" over {comparison['over']}" if "over" in comparison else ""
    return f"{what}{' (logarithms)' if comparison.get('log') else ''} ="


def describe_question(comparison: dict[str, Any]) -> str:
    """The comparison and its threshold, as fixed in the yaml."""
    kind, margin = comparison["kind"], comparison.get("margin", 0.0)
    if kind == "every":
        bounds = {"at_most": "at most", "at_least": "at least", "equals": "equal to"}
        parts = [f"{text} {_bound(comparison[key])}" for key, text in bounds.items() if key in comparison]
        within = f" within {comparison['tolerance']:g}" if "tolerance" in comparison else ""
        return f"every value {' and '.join(parts)}{within}"
    if kind in ("equivalent", "flat"):
        if kind == "flat" and "target" in comparison:
            return f"a slope of {comparison['target']:g} within {margin:g}"
        return f"{'no slope' if kind == 'flat' else 'no difference'} beyond {margin:g}"
    return f"{kind} by more than {margin:g}"


def _bound(bound: Any) -> str:
    if isinstance(bound, dict):
        return "; ".join(f"{arm}: {_bound(value)}" for arm, value in bound.items())
    return "[" + ", ".join(f"{value:g}" for value in bound) + "]" if isinstance(bound, list) else f"{bound:g}"


def section(verdict: dict[str, Any]) -> str:
    """A section of a report in Markdown, to stand beside `figure.png`."""
    return (
        f"## {title(verdict)}\n\n> {verdict['sentence']}\n\n{verdict['source']}\n\n"
        f"```\n{paragraph(verdict)}\n```\n\n![{verdict['id']}](figure.png)\n\n`{verdict['command']}`\n"
    )
