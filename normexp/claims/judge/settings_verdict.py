"""The verdict of a claim over several settings, as in `verdict.json`."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from normexp.claims.judge.depends import ContrastJudgement, judge_contrast
from normexp.claims.judge.judge_settings import SettingsJudgement, judge_settings
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_word import INCONCLUSIVE, REFUTED, SUPPORTED, VARIES
from normexp.claims.judge.verdict import head, of_the_claim
from normexp.claims.judge.voting import Rules
from normexp.claims.spec.registry import ALPHA, Row

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim, Manipulation

UNREGISTERED = "unregistered"


def make_settings_verdict(
    claim: "Claim",
    settings: list[Setting],
    *,
    looks: int = 1,
    row: Row | None = None,
    late: str = "",
    contrast: dict[str, list[Setting]] | None = None,
    manipulation: list[Setting] | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge a claim over its settings.

    Args:
        settings: the runs of every arm in each setting, for the seeds that this look may see.
        looks: how many times the claim may be judged in all. Each look spends its share of alpha.
        row: the claim's registration, with the alpha of its verdict. None: the scope says "unregistered".
        late: words for the scope if the row came after some of the runs.
        contrast: groups of settings of the claim's contrast, on fresh seeds.
        manipulation: the settings with the values of the manipulation check.

    The keys `effect`, `interval`, `p_raw` and the like belong to the comparison that decided.
    """
    alpha = (row.alpha if row else ALPHA) / looks
    measure = "failed" if claim.metric == "failed" else "value"
    rules = Rules(failed=claim.failed, measure=measure, better=claim.better, alpha=alpha)
    judgements = judge_settings(settings, claim.comparisons, rules)
    decided = overall_settings(judgements)
    word, scope = decided.verdict, decided.scope
    found = _contrast(claim, contrast, rules, settings)
    if found and found.confirmed:
        word, scope = found.word, found.scope
        decided = replace(decided, p_raw=found.p, p_adjusted=found.p, note="")
    own = claim.manipulation
    check = _manipulation(own, manipulation, rules) if own and manipulation else None
    if check and not check["held"] and word != INCONCLUSIVE:  # "refuted" blames a cause too
        word, scope, decided = INCONCLUSIVE, decided.scope, replace(decided, note=check["note"])
    scope = ", ".join(filter(None, (scope, UNREGISTERED if row is None else late)))
    kept = asdict(decided)
    return {
        **head(claim, word, scope, kept),
        "comparisons": [asdict(judgement) for judgement in judgements],
        "arms": arm_means(settings),
        **{
            key: kept[key] for key in ("settings", "failures", "prediction", "between", "worst_case", "pairs")
        },
        "contrast": found and found._asdict(),
        "manipulation": check,
        "registered": None
        if row is None
        else {"row": row.number, "hash": row.hash, "date": row.date, "alpha": row.alpha},
        **of_the_claim(claim),
        **(extra or {}),
    }


def overall_settings(judgements: list[SettingsJudgement]) -> SettingsJudgement:
    """The comparison that decides. A sentence holds if all its comparisons hold, and falls with one of them."""
    for word in (REFUTED, VARIES, INCONCLUSIVE, SUPPORTED):
        for judgement in judgements:
            if judgement.verdict == word:
                return judgement
    raise ValueError("claim: it has no comparison; add one")


def _contrast(
    claim: "Claim", groups: dict[str, list[Setting]] | None, rules: Rules, settings: list[Setting]
) -> ContrastJudgement | None:
    """Judge the contrast by the claim's first comparison. The seeds of the verdict count as seen."""
    if not (claim.contrast and groups):
        return None
    seen = {int(seed) for setting in settings for own in setting.outcomes.values() for seed in own.seeds}
    return judge_contrast(claim.contrast.varies, groups, claim.comparisons[0], rules, seen)


def _manipulation(own: "Manipulation", settings: list[Setting], rules: Rules) -> dict[str, Any]:
    judgement = judge_settings(
        settings, [own.comparison], replace(rules, measure="value", failed="left_out")
    )[0]
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
