"""A training claim on its way to a verdict: the runs that it needs now, and how many more it may need.

What trains is imported where it is needed: Lightning takes two seconds, and most claims train nothing.
"""

import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.evidence.wanted import Rates, Wanted, tuning, wanted
from normexp.claims.judge import judge
from normexp.claims.spec.claim import Claim
from normexp.config.process import fast_imports

if TYPE_CHECKING:
    from normexp.claims.evidence.training_runs import Runs

Evidence = tuple[pd.DataFrame, dict[str, Any]]  # table and verdict


def asking(claim: Claim, out: Path, command: str) -> "Asking":
    """A claim whose runs lie in the cache of `out`."""
    with fast_imports():
        from normexp.claims.evidence.training_runs import Runs

    return Asking(claim, Runs(claim, out / "cache", command=command))


def stages(claim: Claim, runs: "Runs") -> Generator[list[Wanted], None, Evidence]:
    """Yield the runs that must be finished next: first those that tune, then the seeds of each look, until the claim is
    decided or its budget ends."""
    from normexp.claims.evidence import training_runs

    rates: Rates = None
    if claim.tune:
        yield tuning(claim)
        rates = training_runs.tune(claim, runs)
    chosen = {f"{arm} {level}".strip(): lr for (arm, level), lr in (rates or {}).items()}
    for seeds in claim.looks:
        yield wanted(claim, rates, claim.seed_range(seeds))
        table = training_runs.gather(claim, runs, rates, claim.seed_range(seeds))
        verdict = judge(table, claim, looks=len(claim.looks))
        if verdict["verdict"] != "inconclusive":
            break
    edges = (min(claim.tune["lr"]), max(claim.tune["lr"])) if claim.tune and chosen else ()
    verdict |= {
        "learning_rates": chosen or "as in the yaml, or the optimizer's own, in every arm",
        # For these the grid may be too narrow.
        "learning_rates_at_edge": [arm for arm, lr in chosen.items() if lr in edges],
        "runs": {
            "trained": runs.trained,
            "from_cache": runs.reused,
            "training_seconds": round(runs.seconds, 1),
        },
    }
    return table, verdict


class Asking:
    """Attributes:
    evidence: table and verdict, when no run is missing.
    compared: the runs that the verdict compares, when no run is missing.
    """

    def __init__(self, claim: Claim, runs: "Runs"):
        self.claim, self.runs = claim, runs
        self.evidence: Evidence | None = None
        self.compared: list[Wanted] = []
        self._stages = stages(claim, runs)
        self._now: list[Wanted] | None = None
        self._looked = 0  # number of stages so far
        self._started = time.perf_counter()

    def missing(self) -> list[Wanted]:
        """The runs that the next stage needs; none when the evidence is complete."""
        while self.evidence is None:
            if self._now is None:
                try:
                    self._now = next(self._stages)
                    self._looked += 1
                except StopIteration as end:
                    self.evidence = end.value
                    self.evidence[1]["seconds"] = time.perf_counter() - self._started
                    break
            if found := self.runs.missing(self._now):
                return found
            self.compared, self._now = self._now, None
        return []

    def at_most(self) -> int:
        """Most runs that are missing. The verdict may need fewer: seeds are added only until it decides, and the runs
        it needs are known only after the learning rates are."""
        missing = self.missing()
        if not missing:
            return 0
        cells = len(self.claim.arms) * len(self.claim.levels)
        if self.claim.tune and self._looked == 1:
            return len(missing) + cells * self.claim.looks[-1]
        rates = {(run.arm, run.level): run.lr for run in self._now or []}
        return len(self.runs.missing(wanted(self.claim, rates, self.claim.seed_range(self.claim.looks[-1]))))
