"""The verdict of a claim, as in `verdict.json`."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from normexp.claims.judge.estimate import ALPHA
from normexp.claims.judge.one_setting import INCONCLUSIVE, REFUTED, SUPPORTED, Judgement, judge_one_setting
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.random_effects import VARIES
from normexp.claims.judge.several_settings import Rules, judge_contrast, judge_settings
from normexp.runs.files import write_json

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim, Manipulation
    from normexp.claims.spec.registry import Row

VERDICT = "verdict.json"
UNTUNED = "untuned"  # folder below a claim's verdict, for the verdict without tuning
UNTESTABLE = "cannot be tested"
NO_COUNTEREXAMPLE = "no counterexample"
ONE_SETTING = "one setting, unregistered"
UNREGISTERED = "unregistered"
J = TypeVar("J", bound=Judgement)


def judge(
    evidence: pd.DataFrame | list[Setting],
    claim: "Claim",
    *,
    looks: int = 1,
    row: "Row | None" = None,
    late: str = "",
    contrast: dict[str, list[Setting]] | None = None,
    manipulation: list[Setting] | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge a claim's evidence. The keys `effect`, `interval`, `p_raw` and the like belong to the comparison that
    decided. `comparisons` has all.

    Args:
        evidence: over one setting a table with the columns arm, factor, seed and value; over several the runs of every
            arm in each of them, for the seeds that this look may see.
        looks: how many times the claim may be judged in all. Each look spends its share of alpha.
        row: over settings, the claim's registration with the alpha of its verdict. None: the scope says "unregistered".
        late: over settings, words for the scope if the row came after some of the runs.
        contrast: over settings, the groups of settings of the claim's contrast, on fresh seeds.
        manipulation: over settings, the settings with the values of the manipulation check.
        extra: more keys of the verdict, such as its cost.
    """
    if isinstance(evidence, pd.DataFrame):
        return _one_setting(claim, evidence, looks) | (extra or {})
    rules = Rules(
        failed=claim.failed,
        measure="failed" if claim.metric == "failed" else "value",
        better=claim.better,
        alpha=(row.alpha if row else ALPHA) / looks,
    )
    judgements = judge_settings(evidence, claim.comparisons, rules)
    decided = deciding(judgements)
    word, scope, found, check = decided.verdict, decided.scope, None, None
    if claim.contrast and contrast:  # by the first comparison; the seeds of the verdict count as seen
        seen = {int(seed) for setting in evidence for own in setting.outcomes.values() for seed in own.seeds}
        found = judge_contrast(claim.contrast.varies, contrast, claim.comparisons[0], rules, seen)
        if found.confirmed:
            word, scope = found.word, found.scope
            decided = replace(decided, p_raw=found.p, p_adjusted=found.p, note="")
    if claim.manipulation and manipulation:
        check = _manipulation(claim.manipulation, manipulation, rules)
        if not check["held"] and word != INCONCLUSIVE:  # "refuted" blames a cause too
            word, scope, decided = INCONCLUSIVE, decided.scope, replace(decided, note=check["note"])
    kept = asdict(decided)
    return {
        **_head(claim, word, ", ".join(filter(None, (scope, late if row else UNREGISTERED))), kept),
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arm_means(evidence),
        **{
            key: kept[key] for key in ("settings", "failures", "prediction", "between", "worst_case", "pairs")
        },
        "contrast": found and found._asdict(),
        "manipulation": check,
        "registered": row and {"row": row.number, "hash": row.hash, "date": row.date, "alpha": row.alpha},
        **(extra or {}),
    }


def _one_setting(claim: "Claim", table: pd.DataFrame, looks: int) -> dict[str, Any]:
    """The verdict from one setting. A law has no scope. Cases never support a universal sentence that mathematics does
    not prove; it then has "no counterexample" among them."""
    trained = claim.evidence == "training"
    judgements = judge_one_setting(
        table, claim.comparisons, better=claim.better, looks=looks, trained=trained
    )
    decided = deciding(judgements)
    word, scope = decided.verdict, "" if claim.evidence == "law" else ONE_SETTING
    universal = all(comparison.kind == "every" for comparison in claim.comparisons)
    if claim.search and word == REFUTED:
        scope = f"by a counterexample, after a search of {len(table)} cases"
    elif universal and word == SUPPORTED and claim.expected != SUPPORTED:
        word, scope = NO_COUNTEREXAMPLE, f"in {len(table)} cases"
    runs = table.assign(lost=~np.isfinite(table["value"].to_numpy(float))).groupby("arm", sort=False)["lost"]
    means = table.groupby(["arm", "factor"], sort=False)["value"].mean()
    arms: dict[str, dict[str, float]] = {}
    for arm, level, mean in means.reset_index().itertuples(index=False):
        arms.setdefault(str(arm), {})[str(level)] = float(mean)
    return {
        **_head(claim, word, scope, asdict(decided)),
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arms,
        "settings": [],
        "failures": {str(arm): {"failed": int(own.sum()), "of": len(own)} for arm, own in runs}
        if trained
        else {},
    }


def deciding(judgements: list[J]) -> J:
    """The comparison that decides. A sentence holds if all its comparisons hold, and falls with one of them."""
    for word in (REFUTED, VARIES, INCONCLUSIVE, SUPPORTED):
        for judgement in judgements:
            if judgement.verdict == word:
                return judgement
    raise ValueError("claim: it has no comparison; add one")


def _manipulation(own: "Manipulation", settings: list[Setting], rules: Rules) -> dict[str, Any]:
    rules = replace(rules, measure="value", failed="left_out")
    judgement = judge_settings(settings, [own.comparison], rules)[0]
    held = judgement.verdict == SUPPORTED
    note = "" if held else f"the manipulation check did not hold: {own.measure} is {judgement.verdict}"
    return asdict(judgement) | {"measure": own.measure, "held": held, "note": note}


def arm_means(settings: list[Setting]) -> dict[str, dict[str, float]]:
    """Mean value of each arm in each setting, over the seeds at which it trained; nan if it never did."""
    means: dict[str, dict[str, float]] = {}
    for setting in settings:
        for (arm, level), own in setting.outcomes.items():
            trained = own.values[~own.failed]
            name = f"{setting.name} {level}".strip()
            means.setdefault(arm, {})[name] = float(trained.mean()) if len(trained) else float(np.nan)
    return means


def _of_the_claim(claim: "Claim") -> dict[str, Any]:
    """The parts of a claim that its verdict repeats."""
    own = (
        "id",
        "name",
        "sentence",
        "measure",
        "source",
        "evidence",
        "kind",
        "paper_effect",
        "budget",
        "protocol",
    )
    return {key: getattr(claim, key) for key in own} | {"covers": list(claim.covers)}


def _head(claim: "Claim", word: str, scope: str, decided: dict[str, Any]) -> dict[str, Any]:
    """The keys that every verdict has, from the claim, its word and the comparison that decided."""
    keys = ("effect", "interval", "level", "n_seeds", "method", "p_raw", "p_adjusted", "more_seeds", "note")
    return {
        **{"id": claim.id, "name": claim.name, "sentence": claim.sentence, "verdict": word, "scope": scope},
        **{key: decided[key] for key in (*keys, "comparison")},
        **_of_the_claim(claim),
        "means": claim.note,
        "expected": claim.expected,
        "as_expected": None if claim.expected is None else word == claim.expected,
    }


def untestable(claim: "Claim", command: str) -> dict[str, Any]:
    """The verdict for a sentence that no evidence can decide, with the reason."""
    return {
        **{"id": claim.id, "name": claim.name, "sentence": claim.sentence, "verdict": UNTESTABLE},
        **_of_the_claim(claim),
        **{"effect": None, "interval": None, "level": None, "n_seeds": 0},
        "reason": claim.reason,
        **{"scope": "", "settings": [], "failures": {}},
        "untuned": False,
        "seconds": 0.0,
        "command": command,
    }


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
