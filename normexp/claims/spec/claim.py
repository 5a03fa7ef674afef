"""A claim: one document of a yaml in `configs/claims/`, and what it asks of a bank."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field

from normexp.claims.judge.comparison import Comparison, Number
from normexp.claims.spec.bank import SMALL, Bank
from normexp.claims.spec.cell import BankCell, Positive, Some, Strict, Text, Whole, Words

VERDICTS = Literal["supported", "refuted", "undecided"]  # that mathematics may give
OPTION = "options."  # marks an option of an initialization claim's function among the overrides of a setting
Cells = dict[str, list[str]]  # name -> overrides


class Sample(Strict):
    """The first settings of a drawn bank, at one of their lengths; `where`: the labels that they have."""

    bank: Text
    first: Whole
    at: Literal["final", "early"] | None = None
    where: dict[str, Any] = Field(default={})


class Range(Strict):
    """Numbers between two ends, evenly or by their logarithm."""

    low: Number
    high: Number
    log: bool = False


class Search(Strict):
    """The budget and the space of a search for counterexamples; `weights`: whether initial weights are drawn."""

    cases: Annotated[int, Field(ge=5)]
    choose: dict[str, Range | Some] = Field(default={})
    weights: bool = False


class Manipulation(Strict):
    """The change that a causal word requires: `metric` measures it, `comparison` says how large it is."""

    measure: Text
    comparison: Comparison
    metric: Text


class Document(Strict):
    """A falsifiable sentence with everything that was fixed before it was tested, as its file says it.

    Attributes:
        arxiv: ids of the papers that `source` names by their authors.
        covers: seed claims (S..) and paper claims (P..) that this one tests, wholly or in part.
        evidence: `law` (a function of a norm), `initialization` (a function of a network at its start), `training`
            (finished runs).
        does_not_show, withdrawn: what nobody should conclude, beside what `judge.limits.limits` says of every claim;
            why the sentence, as worded, is withdrawn. Like words about it, they are no part of the protocol.
        measure: the meaning of a value, in words.
        function: for law and initialization, `<file of normexp.claims.laws>.<function>`.
        metric: for training, a name in the run's summary such as `test/accuracy` or `convergence/steps_to_0.9`, or one
            name per arm. Arms with equal overrides share runs.
        arms: name -> overrides; for a law without a norm, name -> options of the function.
        fixed, options: overrides, and keyword arguments of the function, of every arm.
        factor: one keyword (law, initialization) or override (training), with its values.
        first_seed: after a change of protocol, it lies beyond the seeds of earlier verdicts.
        better: required if runs may diverge.
        expected: the verdict, only if mathematics gives it.
        seconds: rough time of one value, for the plan.
        asked: the settings, in any of the forms of docs/claims.md.
        rate: the learning rate of a run over settings: `own` is each seed's best on validation. If the sentence is
            about a rate: the `lowest`, `middle` or `highest` of the setting's grid, in every arm.
    """

    id: str = ""
    name: Text
    sentence: Text
    source: Text
    arxiv: list[Text] = Field(default=[])
    covers: list[Text]
    kind: Literal["verbatim", "paraphrase", "ours", "arithmetic", "self-check"] | None = None
    evidence: Literal["law", "initialization", "training"]
    note: str = ""
    does_not_show: str = ""
    withdrawn: str = ""
    paper_effect: dict[str, Any] = Field(
        default={}
    )  # what the literature measured: value, where, size, effect
    measure: str = ""
    function: Text | None = None
    metric: Text | dict[str, Text] | None = None
    arms: dict[str, Words | dict[str, Any]] = Field(default={})
    fixed: Words = Field(default=[])
    options: dict[str, Any] = Field(default={})
    factor: dict[str, Some] = Field(default={})
    seeds: int = 5
    first_seed: int = 0
    better: Literal["lower", "higher"] | None = None
    comparisons: Annotated[
        list[Comparison], BeforeValidator(lambda node: node if isinstance(node, list) else [node])
    ] = Field(default=[], alias="comparison")
    expected: VERDICTS | None = None
    seconds: Positive = 0.02
    asked: Sample | Annotated[list[Text | dict[str, Words]], Field(min_length=1)] | None = Field(
        default=None, alias="settings"
    )
    rate: Literal["own", "lowest", "middle", "highest"] = "own"
    search: Search | None = None
    manipulation: Manipulation | None = None


class Claim(Document, populate_by_name=True, arbitrary_types_allowed=True):
    """A document with its settings.

    Attributes:
        cells: name -> cell of each setting over which the claim is judged; empty for one setting.
        bank: name of the bank that gives them in place of the claim's own.
        first: so many settings, drawn from a distribution by a written seed, are asked for; 0: a list that somebody
            chose, which makes no word.
        drawn_from: the bank whose population they are a sample of.
    """

    cells: dict[str, BankCell] = Field(default={})
    bank: str = SMALL
    first: int = 0
    drawn_from: Bank | None = None

    @property
    def settings(self) -> Cells:
        """Name -> overrides of each setting, which come before those of `fixed` and `arms`."""
        return {name: list(cell.overrides) for name, cell in self.cells.items()}

    @property
    def where(self) -> Mapping[str, Any]:
        """The labels that drawn settings have, each a value or a list of values."""
        return self.asked.where if isinstance(self.asked, Sample) else {}

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
        if not check or self.check_of(arm) or self.metric_of(arm).startswith("logged/"):
            return self.fixed
        return [word for word in self.fixed if not word.startswith("monitor")]

    @property
    def values(self) -> int:
        """Number of values at the last look."""
        if self.search:
            return self.search.cases
        return len(self.arms) * len(self.levels) * self.seeds * max(len(self.cells), 1)


def split_options(overrides: list[str]) -> tuple[list[str], dict[str, Any]]:
    """(overrides of the configuration, options of the function such as {"batch_size": 16})."""
    config_overrides = [o for o in overrides if not o.startswith(OPTION)]
    given = (o.removeprefix(OPTION).partition("=") for o in overrides if o.startswith(OPTION))
    return config_overrides, {key: yaml.safe_load(value) for key, _, value in given}
