"""What every verdict has, whatever its evidence: the claim that it is of, the means of its arms, and its failed
runs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from normexp.claims.judge.limits import limits_of
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.verdict import Failures

if TYPE_CHECKING:
    from normexp.claims.spec.claim import Claim


def head(claim: "Claim") -> dict[str, Any]:
    """The fields of a verdict that its claim gives."""
    same = (
        "id",
        "name",
        "sentence",
        "measure",
        "source",
        "evidence",
        "kind",
        "paper_effect",
        "bank",
        "expected",
    )
    return {
        **{name: getattr(claim, name) for name in same},
        "covers": tuple(claim.covers),
        "means": claim.note,
        "limits": limits_of(claim),
    }


def arm_means(settings: Sequence[Setting]) -> dict[str, dict[str, float]]:
    """Mean value of each arm in each setting, over the seeds at which it trained; nan if it never did."""
    means: dict[str, dict[str, float]] = {}
    for setting in settings:
        for (arm, level), outcomes in setting.outcomes.items():
            trained = outcomes.values[~outcomes.failed]
            name = f"{setting.name} {level}".strip()
            means.setdefault(arm, {})[name] = float(trained.mean()) if len(trained) else math.nan
    return means


def lost_runs(settings: Sequence[Setting]) -> dict[str, Failures]:
    """Arm -> its runs, and how many of them failed, over all levels and settings."""
    lost: dict[str, Failures] = {}
    for setting in settings:
        for (arm, _), outcomes in setting.outcomes.items():
            before = lost.get(arm, Failures(failed=0, of=0))
            failed = before.failed + int(outcomes.failed.sum())
            lost[arm] = Failures(failed=failed, of=before.of + len(outcomes.seeds))
    return lost
