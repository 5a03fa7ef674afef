"""What a claim's page says in sentences: what its word rests on, its effect, its failed runs."""

import math
from typing import Any

from normexp.claims.judge.verdict_text import describe_effect, describe_question
from normexp.claims.pages.site.marks import number
from normexp.claims.spec.claim import Claim
from normexp.counted import counted


def rests_on(claim: Claim, verdict: dict[str, Any]) -> str:
    """Two sentences: on the evidence, and on its result."""
    low, high = map(float, verdict["interval"])
    shown = f"{number(float(verdict['effect']))}, interval {number(low)} to {number(high)}"
    asked = verdict.get("asked") or describe_question(verdict["comparison"])
    comparison = verdict.get("comparison") or {}
    if comparison.get("log") and "margin" in comparison:
        factors = [number(math.exp(value)) for value in (float(verdict["effect"]), low, high)]
        shown += ", in logarithms: a factor of {}, {} to {}".format(*factors)
        sign = -1 if comparison["kind"] == "smaller" else 1
        asked += f", a factor of {number(math.exp(sign * comparison['margin']))}"
    kind = {
        "law": "values of a formula",
        "initialization": "networks at their start",
        "training": "trained networks",
    }
    what = kind[claim.evidence]
    if verdict["settings"]:
        voting = sum(row["votes"] for row in verdict["settings"])
        first = (
            f"It rests on {counted(verdict['pairs'], 'pair')} of {what} in "
            f"{counted(len(verdict['settings']), 'setting')}, of which {voting} vote."
        )
    elif claim.evidence == "law":
        first = f"It rests on mathematics: {counted(verdict['n_seeds'], 'draw')} of {what} were compared."
    else:
        first = f"It rests on {counted(verdict['n_seeds'], 'seed')} of {what} in one setting."
    return f"{first} The effect is {shown}; asked was {asked}."


def effect_in_words(comparison: dict[str, Any] | None) -> str:
    """The effect, for the caption of the drawing. Empty if an older verdict does not say it."""
    if comparison is None:
        return ""
    return "every value" if comparison["kind"] == "every" else describe_effect(comparison).removesuffix(" =")


def failures(claim: Claim, verdict: dict[str, Any]) -> str:
    """A sentence on the number of failed runs. Empty for a law, which has no runs."""
    found = verdict.get("failures") or {}
    if claim.evidence == "law":
        return ""
    if "pairs" in found:
        unequal = " The arms fail unequally." if found["unequal"] else ""
        baseline = "" if found["baseline"] is None else f" and {found['baseline']} of the baseline"
        return (
            f"Of {counted(found['pairs'], 'pair')}, {found['arm']} runs of the arm{baseline} failed.{unequal}"
        )
    lost = {arm: own for arm, own in found.items() if own["failed"]}
    if not found:
        return "How many runs failed was not kept."
    words = "; ".join(f"{arm} {own['failed']} of {own['of']}" for arm, own in lost.items())
    return f"Failed runs: {words}." if lost else "No run failed."
