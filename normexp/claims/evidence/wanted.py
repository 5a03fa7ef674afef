"""The runs that a training claim needs."""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from normexp.claims.spec.claim import TUNING_SEEDS, Claim

Rates = Mapping[tuple[str, Any], float | None] | None  # of each arm and level


class Wanted(NamedTuple):
    """One run of a claim."""

    arm: str
    level: Any
    seed: int
    lr: float | None


def tuning(claim: Claim) -> list[Wanted]:
    """The runs that choose learning rates, for each arm at each level, over seeds that no verdict sees."""
    if claim.tune is None:
        return []
    seeds = range(TUNING_SEEDS, TUNING_SEEDS + claim.tune["seeds"])
    cells = itertools.product(claim.arms, claim.levels, claim.tune["lr"], seeds)
    return [Wanted(arm, level, seed, lr) for arm, level, lr, seed in cells]


def wanted(claim: Claim, rates: Rates, seeds: range) -> list[Wanted]:
    """The runs of every arm, level and seed."""
    cells = itertools.product(claim.arms, claim.levels, seeds)
    return [Wanted(arm, level, seed, rates[arm, level] if rates else None) for arm, level, seed in cells]
