"""From evidence to a verdict: `judge` is the one way in, for one setting and for several. Imports no torch."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_verdict import make_settings_verdict
from normexp.claims.judge.verdict import make_verdict
from normexp.claims.spec.registry import Row

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim


def judge(
    evidence: pd.DataFrame | list[Setting],
    claim: "Claim",
    *,
    looks: int = 1,
    row: Row | None = None,
    late: str = "",
    contrast: dict[str, list[Setting]] | None = None,
    manipulation: list[Setting] | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Judge a claim's evidence. Returns the verdict as in `verdict.json`.

    Args:
        evidence: over one setting a table with the columns arm, factor, seed, value, censored; over several the runs
            of every arm in each of them, for the seeds that this look may see.
        looks: how many times the claim may be judged in all. Each look spends its share of alpha.
        row: over settings, the claim's registration with the alpha of its verdict. None: "unregistered".
        late: over settings, words for the scope if the row came after some of the runs.
        contrast: over settings, the groups of settings of the claim's contrast, on fresh seeds.
        manipulation: over settings, the settings with the values of the manipulation check.
        extra: more keys of the verdict, such as its cost.
    """
    if isinstance(evidence, pd.DataFrame):
        return make_verdict(claim, evidence, looks=looks, extra=extra or {})
    return make_settings_verdict(
        claim,
        evidence,
        looks=looks,
        row=row,
        late=late,
        contrast=contrast,
        manipulation=manipulation,
        extra=extra,
    )
