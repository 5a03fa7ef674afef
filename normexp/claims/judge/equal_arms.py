"""A/A comparisons of trained runs: an arm against itself, with other seeds."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.decide import judge
from normexp.claims.spec.claim import Claim

HALF = 5  # seeds on each side


def equal_arms(claims: dict[str, Claim], finished: Iterable[str], out: Path) -> list[dict[str, Any]]:
    """Judge seeds 0 to 4 of each arm against its seeds 5 to 9, then 10 to 14 against 15 to 19.

    Only the seed differs, so each claimed difference is an error. No margin protects from it. Runs that several claims
    share are compared once. Only losses and accuracies count: steps to a target are censored, so they are judged by
    ranks, which five seeds never decide.
    """
    rows, seen = [], set()
    for name in finished:
        claim = claims[name]
        if claim.evidence != "training" or claim.settings:
            continue
        evidence = pd.read_csv(out / name / "evidence.csv", keep_default_na=False, na_values=["nan"])
        for (arm, factor), own in evidence.groupby(["arm", "factor"], sort=False):
            if claim.metric_of(str(arm)).startswith(("convergence/", "logged/")):
                continue
            values = own.sort_values("seed")["value"].tolist()
            for start in range(0, len(values) - 2 * HALF + 1, 2 * HALF):
                pair = values[start : start + HALF], values[start + HALF : start + 2 * HALF]
                if str(pair) in seen:
                    continue
                seen.add(str(pair))
                rows.append({"claim": name, "arm": f"{arm} {factor}".strip(), **_judged(*pair, claim.better)})
    return rows


def _judged(first: list[float], second: list[float], better: str | None) -> dict[str, Any]:
    sides = {"first": first, "second": second}
    table = pd.DataFrame(
        {"arm": arm, "factor": "", "seed": seed, "value": value, "censored": False}
        for arm, values in sides.items()
        for seed, value in enumerate(values)
    )
    comparison = Comparison(kind="different", arm="first", baseline="second")
    judgement = judge(table, [comparison], better=better, trained=True)[0]
    return {
        "effect": judgement.effect,
        "interval": judgement.interval,
        "p": judgement.p_raw,
        "different": judgement.verdict == "supported",
    }
