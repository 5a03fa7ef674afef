"""A claim: one yaml in `configs/claim/`, read and checked."""

import hashlib
import json
import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.comparison import Comparison
from normexp.claims.judge import FEWEST_SEEDS

EVIDENCE = ("law", "initialization", "training", "none")
VERDICTS = ("supported", "refuted", "inconclusive")
BUDGETS = ("quick", "full", "paper")
TUNING_SEEDS = 1000  # seeds from here on tune learning rates; a verdict never sees them


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A falsifiable sentence with everything that was fixed before it was tested.

    Attributes:
        id: the file's name, e.g. `S37`.
        covers: seed claims (S..) and paper claims (P..) that this file tests, or part of which it tests.
        evidence: `law` (a function of a norm), `initialization` (a function of a network at its start), `training`
            (finished runs), or `none` with a `reason` why the sentence cannot be tested.
        measure: what a value is, in words.
        function: for law and initialization, `<file of normexp.laws>.<function>`.
        metric: for training, a name in the run's summary such as `test/accuracy` or `convergence/steps_to_0.9`, or one
            for each arm; arms of equal overrides share their runs.
        arms: name -> overrides; for a law without a norm, name -> options of the function.
        fixed: overrides of every arm.
        options: keyword arguments of the function in every arm.
        factor: one keyword (law, initialization) or override (training) with the values it takes.
        seeds: how many, or the looks [5, 10, 20] at which the claim is judged until it decides.
        first_seed: where they start; above 0 after a change of protocol, beyond the seeds of verdicts seen before it.
        better: lower or higher, needed where runs may diverge.
        tune: the learning rates that each arm tries on validation with seeds of its own.
        expected: the verdict, only where mathematics gives it.
        seconds: rough time of one value, for the plan.
        full, paper: keys that the larger budgets change.
    """

    id: str
    name: str
    sentence: str
    source: str
    covers: tuple[str, ...]
    evidence: str
    measure: str = ""
    function: str | None = None
    metric: str | dict[str, str] | None = None
    arms: dict[str, Any] = field(default_factory=dict)
    fixed: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    factor: dict[str, list] = field(default_factory=dict)
    seeds: Any = 5
    first_seed: int = 0
    better: str | None = None
    comparisons: list[Comparison] = field(default_factory=list)
    tune: dict[str, Any] | None = None
    expected: str | None = None
    seconds: float = 0.02
    reason: str = ""
    note: str = ""
    budget: str = "quick"

    @property
    def looks(self) -> list[int]:
        return list(self.seeds) if isinstance(self.seeds, list) else [self.seeds]

    def seed_range(self, count: int) -> range:
        return range(self.first_seed, self.first_seed + count)

    @property
    def levels(self) -> list:
        """Values of the factor; one empty level where there is no factor."""
        return next(iter(self.factor.values())) if self.factor else [""]

    def metric_of(self, arm: str) -> str:
        return self.metric[arm] if isinstance(self.metric, dict) else self.metric

    @property
    def protocol(self) -> str:
        """Hash of all that decides the verdict; a verdict of another protocol is not this claim's."""
        kept = (
            "function",
            "metric",
            "arms",
            "fixed",
            "options",
            "factor",
            "seeds",
            "better",
            "tune",
            "comparisons",
            *(["first_seed"] if self.first_seed else []),
        )
        text = json.dumps(
            {name: getattr(self, name) for name in kept}, default=Comparison.shown, sort_keys=True
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def cells(self) -> int:
        """Values to gather at the last look."""
        return len(self.arms) * len(self.levels) * self.looks[-1]


def load_claims(folder: Path, budget: str = "quick") -> dict[str, Claim]:
    """Every claim of a folder by id, with the keys of a budget put in place."""
    if budget not in BUDGETS:
        raise ValueError(f"budget={budget}: choose from {', '.join(BUDGETS)}")
    return {path.stem: read_claim(path, budget) for path in sorted(folder.glob("*.yaml"), key=natural)}


def natural(path: Path) -> tuple[str, int, str]:
    """Order by letter, number and rest: S2 before S10."""
    match = re.fullmatch(r"([A-Z]+)(\d+)(.*)", path.stem)
    return (match[1], int(match[2]), match[3]) if match else ("~", 0, path.stem)


def read_claim(path: Path, budget: str = "quick") -> Claim:
    """Read one file; raises ValueError with one line for the first thing wrong in it."""
    node = yaml.safe_load(path.read_text())
    tiers = {tier: node.pop(tier, None) for tier in BUDGETS[1:]}
    if tiers.get(budget):
        node = {**node, **tiers[budget], "budget": budget}
    comparisons = node.pop("comparison", [])
    comparisons = comparisons if isinstance(comparisons, list) else [comparisons]
    known = {item.name for item in fields(Claim)} - {"id", "comparisons"}
    for key in node:
        if key not in known:
            raise ValueError(f"{path}: {key}: no such key; the keys are {', '.join(sorted(known))}")
    missing = {"name", "sentence", "source", "covers", "evidence"} - set(node)
    if missing:
        raise ValueError(f"{path}: {sorted(missing)[0]}: is missing; add it")
    claim = Claim(
        id=path.stem,
        **{**node, "covers": tuple(node["covers"])},
        comparisons=[Comparison.read(item, str(path)) for item in comparisons],
    )
    _check(claim, path)
    return claim


def _check(claim: Claim, path: Path) -> None:
    if claim.evidence not in EVIDENCE:
        raise ValueError(f"{path}: evidence={claim.evidence}: choose from {', '.join(EVIDENCE)}")
    if claim.evidence == "none":
        if not claim.reason:
            raise ValueError(f"{path}: evidence=none: say the reason")
        return
    if claim.expected not in (None, *VERDICTS):
        raise ValueError(f"{path}: expected={claim.expected}: choose from {', '.join(VERDICTS)}")
    if claim.looks[0] < FEWEST_SEEDS:
        raise ValueError(f"{path}: seeds={claim.seeds}: fewer than {FEWEST_SEEDS} seeds rank nothing")
    if not 0 <= claim.first_seed <= TUNING_SEEDS - claim.looks[-1]:
        raise ValueError(f"{path}: first_seed={claim.first_seed}: seeds must lie in 0 to {TUNING_SEEDS - 1}")
    if len(claim.factor) > 1:
        raise ValueError(f"{path}: factor={list(claim.factor)}: one factor a claim; split the claim")
    needed = "metric" if claim.evidence == "training" else "function"
    if not (claim.arms and claim.comparisons and claim.measure and getattr(claim, needed)):
        raise ValueError(f"{path}: evidence={claim.evidence}: needs arms, a comparison, measure and {needed}")
    named = {name for c in claim.comparisons for name in (c.arm, c.baseline, c.over)}
    for arm in sorted(named - {None, *claim.arms}):
        raise ValueError(f"{path}: arm={arm}: is compared but not among the arms {', '.join(claim.arms)}")
