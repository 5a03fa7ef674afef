"""A claim: one document of a yaml in `configs/claims/`."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.bank import SMALL, Bank
from normexp.claims.spec.cell import BankCell, digest_of

EVIDENCE = ("law", "initialization", "training", "none")
VERDICTS = ("supported", "refuted", "undecided")  # verdicts that mathematics may give
TUNING_SEEDS = 1000  # this and higher seeds tune learning rates; no verdict sees them
OPTION = "options."  # marks an option of an initialization claim's function among the overrides of a setting
Cells = dict[str, list[str]]  # name -> overrides
QUICK = "quick"  # in protocols and verdicts of the bank `small`, and of every file of a user's own


@dataclass(frozen=True, kw_only=True)
class Manipulation:
    """The change that a causal word requires: `metric` or `function` measures it, `comparison` says how large it is."""

    measure: str
    comparison: Comparison
    metric: str | None = None
    function: str | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A falsifiable sentence with everything that was fixed before it was tested.

    Attributes:
        id: the file's name, e.g. `S37`.
        covers: seed claims (S..) and paper claims (P..) that this file tests, wholly or in part.
        evidence: `law` (a function of a norm), `initialization` (a function of a network at its start), `training`
            (finished runs), or `none`, with the `reason` why the sentence cannot be tested.
        measure: the meaning of a value, in words.
        function: for law and initialization, `<file of normexp.claims.laws>.<function>`.
        metric: for training, a name in the run's summary such as `test/accuracy` or `convergence/steps_to_0.9`, or one
            name per arm. Arms with equal overrides share runs.
        arms: name -> overrides; for a law without a norm, name -> options of the function.
        fixed: overrides of every arm.
        options: keyword arguments of the function in every arm.
        factor: one keyword (law, initialization) or override (training), with its values.
        seeds: their number.
        first_seed: the first seed. After a change of protocol, it lies beyond the seeds of earlier verdicts.
        better: lower or higher; required if runs may diverge.
        replicas: whether all seeds and rates of an arm at a level train together in one process. The results differ
            from single runs in rounding.
        tune: the learning rates that each arm tries on validation, with separate seeds.
        expected: the verdict, only if mathematics gives it.
        seconds: rough time of one value, for the plan.
        bank: name of the bank of the project that gives the settings in place of the claim's own.
        kind: whose sentence it is: `verbatim`, `paraphrase`, `ours`, `arithmetic`, or `self-check` if it compares the
            code with itself; empty if not stated.
        settings: the family over which the claim is judged: name -> overrides, which come before those of `fixed` and
            `arms`. Empty for one setting.
        cells: name -> cell of each setting.
        rate: the learning rate of a run over settings: `own` is each seed's best on validation. If the sentence is
            about a rate: the `lowest`, `middle` or `highest` of the setting's grid, in every arm.
        first: so many settings, drawn from a distribution by a written seed, are asked for; 0: a list that somebody
            chose, which makes no word.
        where: the labels that they have, each a value or a list of values.
        drawn_from: the bank whose population they are a sample of.
        universal: whether the sentence is about all settings, so that its worst one refutes it.
        paper_effect: the literature's `value`, `where` it stands (table or figure), the `size` of its setting, and
            `effect` if it is known on the claim's own scale.
        manipulation: a measure and a comparison, which must be supported before a causal word can be.
        search: for a universal sentence, the budget and the space of a search for counterexamples: `cases`, `choose`
            (override or option -> its values, or {low, high, log}), `weights` (whether initial weights are drawn).
        does_not_show: what nobody should conclude, beside what `judge.limits.limits` says of every claim. It
            decides nothing, and is no part of the protocol.
        withdrawn: why the sentence, as worded, is withdrawn; its counts stay, its word goes. No part of the protocol.
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
    seeds: int = 5
    first_seed: int = 0
    better: str | None = None
    comparisons: list[Comparison] = field(default_factory=list)
    tune: dict[str, Any] | None = None
    replicas: bool = False
    expected: str | None = None
    seconds: float = 0.02
    reason: str = ""
    note: str = ""
    bank: str = SMALL
    kind: str = ""
    settings: Cells = field(default_factory=dict)
    cells: dict[str, BankCell] = field(default_factory=dict, compare=False)
    rate: str = "own"
    first: int = 0
    where: Mapping[str, Any] = field(default_factory=dict)
    drawn_from: Bank | None = field(default=None, compare=False)
    universal: bool = False
    paper_effect: dict[str, Any] | None = None
    manipulation: Manipulation | None = None
    search: dict[str, Any] | None = None
    does_not_show: str = ""
    withdrawn: str = ""

    @property
    def budget(self) -> str:
        """The scale of the settings, in protocols and verdicts: `quick`, or the name of a larger bank."""
        return QUICK if self.bank == SMALL else self.bank

    @property
    def drawn(self) -> bool:
        """Whether the settings are a sample of a population."""
        return self.first > 0

    @property
    def seed_range(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def levels(self) -> list:
        """Values of the factor; one empty level if there is no factor."""
        return next(iter(self.factor.values())) if self.factor else [""]

    def factor_of(self, level: Any) -> list[str]:
        """The override of a level; none if there is no factor."""
        return [f"{name}={level}" for name in self.factor]

    def metric_of(self, arm: str) -> str:
        metric = self.metric[arm] if isinstance(self.metric, dict) else self.metric
        if metric is None:
            raise ValueError(f"claim={self.id}: evidence={self.evidence} has no metric; ask its function")
        return metric

    def check_of(self, arm: str) -> str | None:
        """The metric of the manipulation check, None in an arm that the check does not compare."""
        check = self.manipulation
        compared = check and arm in (check.comparison.arm, check.comparison.baseline)
        return check.metric if check and compared else None

    def fixed_of(self, arm: str) -> list[str]:
        """`fixed`, without monitors in an arm that only a manipulation check of others would read."""
        check = self.manipulation
        if not check or not check.metric or self.check_of(arm) or self.metric_of(arm).startswith("logged/"):
            return self.fixed
        return [word for word in self.fixed if not word.startswith("monitor")]

    def digest_of(self, arm: str) -> str:
        """Tells arms of one name apart: what they change in every setting, and the name of the factor."""
        return digest_of([*self.fixed_of(arm), *self.arms[arm], *self.factor])

    @property
    def protocol(self) -> str:
        """Hash of everything that decides the verdict. A verdict with another protocol is not this claim's."""
        always = ("function", "metric", "arms", "fixed", "options", "factor", "seeds", "better", "tune")
        if_set = ("first_seed", "replicas", "settings", "universal", "first", "manipulation", "search")
        names = [*always, "comparisons", *(name for name in if_set if getattr(self, name))]
        names += ["rate"] * (self.rate != "own")
        text = json.dumps({name: getattr(self, name) for name in names}, default=_plain, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def values(self) -> int:
        """Number of values at the last look."""
        if self.search:
            return int(self.search["cases"])
        return len(self.arms) * len(self.levels) * self.seeds * max(len(self.settings), 1)


def _plain(part: Comparison | Manipulation) -> dict[str, Any]:
    return part.shown() if isinstance(part, Comparison) else vars(part)


def split_options(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """(overrides of the configuration, options of the function such as {"batch_size": 16})."""
    config_overrides = [o for o in overrides if not o.startswith(OPTION)]
    given = (o.removeprefix(OPTION).partition("=") for o in overrides if o.startswith(OPTION))
    return config_overrides, {key: yaml.safe_load(value) for key, _, value in given}
