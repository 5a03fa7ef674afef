"""The number of runs that a claim still has to train, and its progress."""

import time
from collections.abc import Mapping
from typing import Any

from normexp.claims.evidence.training_runs import Runs, Wanted, gather, tune
from normexp.claims.judge.decide import judge, overall
from normexp.claims.spec.claim import TUNING_SEEDS, Claim
from normexp.duration import duration


def to_train(claim: Claim, runs: Runs) -> int:
    """Most runs that are still missing. The verdict may need fewer: seeds are added only until it decides, and the runs
    it needs are known only after the learning rates are."""
    cells = [(arm, level) for arm in claim.arms for level in claim.levels]
    rates: Mapping[tuple[str, Any], float | None] = dict.fromkeys(cells)
    if claim.tune:
        seeds = range(TUNING_SEEDS, TUNING_SEEDS + claim.tune["seeds"])
        tuning = [Wanted(*cell, seed, lr) for cell in cells for seed in seeds for lr in claim.tune["lr"]]
        if missing := runs.missing(tuning):
            return len(missing) + len(cells) * claim.looks[-1]
        rates = tune(claim, runs)
    for look in claim.looks:
        if _missing(claim, runs, rates, look):
            return len(_missing(claim, runs, rates, claim.looks[-1]))
        table = gather(claim, runs, rates, claim.seed_range(look))
        judgements = judge(
            table, claim.comparisons, better=claim.better, looks=len(claim.looks), trained=True
        )
        if overall(judgements)[0] != "inconclusive":
            break
    return 0


def _missing(
    claim: Claim, runs: Runs, rates: Mapping[tuple[str, Any], float | None], seeds: int
) -> list[Wanted]:
    asked = (Wanted(*cell, seed, lr) for cell, lr in rates.items() for seed in claim.seed_range(seeds))
    return runs.missing(asked)


class Progress:
    """Prints a line for each run that is trained: its name, its number, and about how long the rest takes."""

    def __init__(self, claim: Claim, runs: Runs, total: int):
        self.claim, self.runs, self.total = claim, runs, total
        self.start = time.perf_counter()
        self.before = runs.trained

    def __call__(self, line: str) -> None:
        done = self.runs.trained - self.before
        each = (time.perf_counter() - self.start) / done if done else self.claim.seconds
        left = duration(each * (self.total - done))
        print(f"  {self.claim.id}: {done + 1} of at most {self.total}: {line}, about {left} left", flush=True)
