"""A search for counterexamples to a universal sentence, over options and initial weights.

Half of the budget is drawn, half changes what came nearest in each kind of case in turn (as MAP-Elites does, Mouret and
Clune 2015, arXiv:1504.04909), so that one easy kind of counterexample does not hide the others.
"""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch

from normexp.claims.evidence.initial import value_of_arm
from normexp.claims.evidence.weights import Weights, pick
from normexp.claims.judge.one_setting import outside
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.document import Search
from normexp.claims.spec.population import Range

TRIES = 20  # draws for one case, since a network whose signal or gradient is dead gives no finite value
LEAST_GAIN = 1e-4  # of the excess; less may be rounding, and rounding differs from processor to processor


@dataclass(frozen=True)
class Case:
    """One point of the space: a value for each key of `choose`, and weights where the claim searches them."""

    chosen: dict[str, Any]
    weights: Weights | None

    @property
    def kind(self) -> tuple:
        """The parts that are no numbers. Cases with equal ones are of one kind."""
        weights_kind = (self.weights.structure, self.weights.pairs) if self.weights else ()
        return (*weights_kind, *(value for value in self.chosen.values() if not isinstance(value, float)))

    def __str__(self) -> str:
        short = {key: f"{v:.4g}" if isinstance(v, float) else v for key, v in self.chosen.items()}
        parts = [f"{key.rpartition('.')[2]} {value}" for key, value in short.items()]
        return "; ".join([*parts, *([str(self.weights)] if self.weights else [])])


def search(claim: Claim) -> pd.DataFrame:
    """One row a case, in the form of other evidence; `seed` numbers the cases and `case` says what each is."""
    assert claim.search is not None
    (arm,), space, cases = claim.arms, claim.search, claim.search.cases
    rows: list[dict[str, Any]] = []
    nearest: dict[tuple, tuple[float, Case]] = {}
    for index in range(cases):
        seed = claim.first_seed + index
        generator = torch.Generator().manual_seed(seed)
        old = list(nearest.values())[index % len(nearest)][1] if index >= cases // 2 else None
        for _ in range(TRIES):
            case = changed(space, old, generator) if old else draw(space, generator)
            if math.isfinite(value := value_of_arm(claim, arm, case.chosen, seed, case.weights)):
                break
        else:
            raise ValueError(
                f"claim={claim.id}: search: {TRIES} draws gave no finite value; narrow the space"
            )
        row = {"arm": arm, "factor": "", "seed": index, "value": value, "case": str(case)}
        rows.append(row)
        excess = max(outside(c, SimpleNamespace(**row), [""]) for c in claim.comparisons)
        if case.kind not in nearest or excess - nearest[case.kind][0] > LEAST_GAIN * abs(excess):
            nearest[case.kind] = excess, case
    return pd.DataFrame(rows)


def draw(space: Search, generator: torch.Generator) -> Case:
    """A case with each part drawn alone."""
    chosen = {key: pick(values, generator) for key, values in space.choose.items()}
    return Case(chosen, Weights.draw(generator) if space.weights else None)


def changed(space: Search, case: Case, generator: torch.Generator) -> Case:
    """The case with one part drawn anew: a choice, or something of its weights."""
    open_ = [key for key, values in space.choose.items() if isinstance(values, Range) or len(values) > 1]
    parts = [*open_, *([""] * 3 if space.weights else [])]
    if part := pick(parts, generator):
        return replace(case, chosen=case.chosen | {part: pick(space.choose[part], generator)})
    return replace(case, weights=case.weights and case.weights.changed(generator))
