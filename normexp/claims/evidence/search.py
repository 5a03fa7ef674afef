"""A search for counterexamples to a universal sentence.

Half of the budget is drawn, half changes what came nearest in each kind of case in turn (as MAP-Elites does, Mouret and
Clune 2015, arXiv:1504.04909), so that one easy kind of counterexample does not hide the others.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from normexp.claims.evidence.initial import law, network, norm_factory
from normexp.claims.judge.verdict import outside
from normexp.claims.laws.weights import Weights, fill
from normexp.claims.spec.claim import Claim

TRIES = 20  # draws for one case; a network whose signal or gradient is dead is no case
LEAST_GAIN = 1e-4  # of the excess; less may be rounding, and rounding differs from processor to processor


@dataclass(frozen=True)
class Case:
    """One point of the space: a value for each key of `choose`, and weights where the claim searches them."""

    chosen: dict[str, Any]
    weights: Weights | None

    @property
    def kind(self) -> tuple:
        """What is not a number."""
        own = (self.weights.structure, self.weights.pairs) if self.weights else ()
        return (*own, *(value for value in self.chosen.values() if not isinstance(value, float)))

    def __str__(self) -> str:
        parts = [f"{key.rpartition('.')[2]} {_short(value)}" for key, value in self.chosen.items()]
        return "; ".join([*parts, *([str(self.weights)] if self.weights else [])])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def search(claim: Claim) -> pd.DataFrame:
    """One row a case, in the form of other evidence; `seed` numbers the cases and `case` says what each is."""
    if claim.search is None:
        raise ValueError(f"claim={claim.id}: search: is missing; say cases and choose, or weights")
    cases = claim.search["cases"]
    rows: list[dict[str, Any]] = []
    nearest: dict[tuple, tuple[float, Case]] = {}
    for index in range(cases):
        generator = torch.Generator().manual_seed(claim.first_seed + index)
        old = list(nearest.values())[index % len(nearest)][1] if index >= cases // 2 else None
        case, value = _living(claim, generator, old, claim.first_seed + index)
        row = {"arm": next(iter(claim.arms)), "factor": "", "seed": index, "value": value, "censored": False}
        rows.append(row | {"case": str(case)})
        excess = max(outside(c, next(pd.DataFrame([row]).itertuples()), [""]) for c in claim.comparisons)
        if case.kind not in nearest or excess - nearest[case.kind][0] > LEAST_GAIN * abs(excess):
            nearest[case.kind] = excess, case
    return pd.DataFrame(rows)


def _living(claim: Claim, generator: torch.Generator, old: Case | None, seed: int) -> tuple[Case, float]:
    for _ in range(TRIES):
        case = changed(claim, old, generator) if old else draw(claim, generator)
        value = _value(claim, case, seed)
        if math.isfinite(value):
            return case, value
    raise ValueError(f"claim={claim.id}: search: {TRIES} draws gave no finite value; narrow the space")


def draw(claim: Claim, generator: torch.Generator) -> Case:
    """A case with each part drawn alone."""
    choose, weights = _space(claim)
    chosen = {key: _pick(values, generator) for key, values in choose.items()}
    return Case(chosen, Weights.draw(generator) if weights else None)


def changed(claim: Claim, case: Case, generator: torch.Generator) -> Case:
    """The case with one part drawn anew: a choice, or something of its weights."""
    choose, weights = _space(claim)
    parts = [*(key for key, values in choose.items() if len(values) > 1), *([""] * 3 if weights else [])]
    part = parts[int(torch.randint(len(parts), (), generator=generator))]
    if part:
        return dataclasses.replace(case, chosen=case.chosen | {part: _pick(choose[part], generator)})
    return dataclasses.replace(case, weights=case.weights and case.weights.changed(generator))


def _space(claim: Claim) -> tuple[dict[str, Any], bool]:
    own = claim.search or {}
    return own.get("choose", {}), own.get("weights", False)


def _pick(values: list | dict[str, float], generator: torch.Generator) -> Any:
    """One of a list, or a number between `low` and `high`, evenly or, with `log`, by its logarithm."""
    if isinstance(values, list):
        return values[int(torch.randint(len(values), (), generator=generator))]
    share = float(torch.rand((), generator=generator))
    low, high = values["low"], values["high"]
    if values.get("log"):
        return low * (high / low) ** share
    return low + share * (high - low)


def _value(claim: Claim, case: Case, seed: int) -> float:
    """The measure of a case; nan where it has none."""
    own = next(iter(claim.arms.values()))
    overrides = [*claim.fixed, *(own if isinstance(own, list) else [])]
    overrides += [f"{key}={value}" for key, value in case.chosen.items() if "." in key]
    options = {**claim.options, **(own if isinstance(own, dict) else {})}
    options |= {key: value for key, value in case.chosen.items() if "." not in key}
    measure = law(str(claim.function))
    if claim.evidence == "law":
        subject = [] if isinstance(own, dict) else [norm_factory(tuple(overrides))]
        return measure(*subject, seed=seed, **options)
    net = network(tuple(overrides), seed)
    if case.weights:
        fill(net, case.weights, seed)
    return measure(net, seed=seed, **options)
