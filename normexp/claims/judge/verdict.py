"""The verdict of a claim, as in `verdict.json`."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.judge.decide import judge, overall
from normexp.claims.judge.scope import ONE_SETTING
from normexp.runs.files import write_json

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim

VERDICT = "verdict.json"
UNTUNED = "untuned"  # folder below a claim's verdict, for the verdict without tuning
UNTESTABLE = "cannot be tested"
NO_COUNTEREXAMPLE = "no counterexample"


def make_verdict(claim: "Claim", table: pd.DataFrame, *, looks: int, extra: dict[str, Any]) -> dict[str, Any]:
    """Judge a claim's evidence. `looks` is how many times it may be judged in all.

    The keys `effect`, `interval`, `p_raw` and the like belong to the comparison that decided. `comparisons` has all.
    """
    trained = claim.evidence == "training"
    judgements = judge(table, claim.comparisons, better=claim.better, looks=looks, trained=trained)
    found, deciding = overall(judgements)
    word, scope = scope_of_one_setting(claim, found, len(table))
    return {
        **head(claim, word, scope, asdict(deciding)),
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arm_means(table),
        "settings": [],
        "failures": failed_runs(table) if trained else {},
        **of_the_claim(claim),
        **extra,
    }


def head(claim: "Claim", word: str, scope: str, decided: dict[str, Any]) -> dict[str, Any]:
    """The keys with which every verdict begins, from the claim, its word and the comparison that decided."""
    return {
        "id": claim.id,
        "name": claim.name,
        "sentence": claim.sentence,
        "verdict": word,
        "scope": scope,
        **{key: decided[key] for key in ("effect", "interval", "level", "n_seeds")},
        "measure": claim.measure,
        "source": claim.source,
        "covers": list(claim.covers),
        "evidence": claim.evidence,
        **{key: decided[key] for key in ("method", "p_raw", "p_adjusted")},
        "more_seeds": decided.get("more_seeds"),
        **{key: decided[key] for key in ("note", "comparison")},
        "means": claim.note,
        "expected": claim.expected,
        "as_expected": None if claim.expected is None else word == claim.expected,
    }


def scope_of_one_setting(claim: "Claim", word: str, cases: int) -> tuple[str, str]:
    """The word and its scope. A law has no scope. Cases never support a universal sentence that mathematics does not
    prove; it then has "no counterexample" among them."""
    if claim.search and word == "refuted":
        return word, f"by a counterexample, after a search of {cases} cases"
    universal = all(comparison.kind == "every" for comparison in claim.comparisons)
    if universal and word == "supported" and claim.expected != "supported":
        return NO_COUNTEREXAMPLE, f"in {cases} cases"
    return word, "" if claim.evidence == "law" else ONE_SETTING


def of_the_claim(claim: "Claim") -> dict[str, Any]:
    """The parts of a claim that its verdict repeats, besides the sentence."""
    return {
        "kind": claim.kind,
        "paper_effect": claim.paper_effect,
        "budget": claim.budget,
        "protocol": claim.protocol,
    }


def failed_runs(table: pd.DataFrame) -> dict[str, dict[str, int]]:
    """For each arm, the number of values that are not a number: runs that diverged."""
    lost = table.assign(lost=[not math.isfinite(value) for value in table["value"]]).groupby(
        "arm", sort=False
    )["lost"]
    return {str(arm): {"failed": int(own.sum()), "of": len(own)} for arm, own in lost}


def untestable(claim: "Claim", command: str) -> dict[str, Any]:
    """The verdict for a sentence that no evidence can decide, with the reason."""
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
        **{"scope": "", "settings": [], "failures": {}},
        **of_the_claim(claim),
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
    """Write `verdict.json` atomically. Numbers that are not finite become text, because JSON has no infinity."""
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
