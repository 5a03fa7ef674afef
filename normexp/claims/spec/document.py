"""A claim as its file says it: one document of a yaml in `configs/claims/`."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from normexp.claims.judge.comparison import Comparison
from normexp.claims.spec.cell import Overrides, Positive, Some, Strict, Text, Whole
from normexp.claims.spec.population import Range


class Sample(Strict):
    """The first settings of a drawn bank, at one of their lengths; `where`: the labels that they have."""

    bank: Text
    first: Whole
    at: Literal["final", "early"] | None = None
    where: dict[str, Any] = Field(default={})

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Label -> the values of which a setting has one."""
        return {
            key: tuple(map(str, value if isinstance(value, list) else [value]))
            for key, value in self.where.items()
        }


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
    """A falsifiable sentence with everything that was fixed before it was tested, as its file says it."""

    id: str = ""
    name: Text
    sentence: Text
    source: Text
    arxiv: list[Text] = Field(default=[])  # ids of the papers that `source` names by their authors
    covers: list[Text]  # seed claims (S..) and paper claims (P..) that this one tests, wholly or in part
    # `reading` goes further than the source does; `ours` is a question of our own.
    kind: Literal["verbatim", "paraphrase", "reading", "ours", "arithmetic", "self-check"] | None = None
    # A function of a norm, a function of a network at its start, or finished runs.
    evidence: Literal["law", "initialization", "training"]
    # Words about the sentence are no part of the protocol: a note, what nobody should conclude (beside what
    # `judge.limits.limits_of` says of every claim), and why the sentence, as worded, is withdrawn.
    note: str = ""
    does_not_show: str = ""
    withdrawn: str = ""
    answered_in: str = ""  # a page of docs that asks the sentence, too, of networks that a person chose
    paper_effect: dict[str, Any] = Field(default={})  # in the literature: value, where, size, effect
    measure: str = ""  # the meaning of a value, in words
    function: Text | None = None  # for law and initialization, `<file of normexp.claims.laws>.<function>`
    # For training, a name in the run's summary such as `test/accuracy` or `convergence/steps_to_0.9`, or one per arm.
    metric: Text | dict[str, Text] | None = None
    # Name -> overrides; for a law without a norm, options of the function. Arms with equal overrides share runs.
    arms: dict[str, Overrides | dict[str, Any]] = Field(default={})
    fixed: Overrides = Field(default=[])  # overrides of every arm
    options: dict[str, Any] = Field(default={})  # keyword arguments of the function, of every arm
    factor: dict[str, Some] = Field(default={})  # one keyword, or one override, with its values
    seeds: int = 5
    first_seed: Annotated[int, Field(ge=0, lt=2**31)] = (
        0  # after an amendment, beyond the seeds of earlier verdicts
    )
    better: Literal["higher", "lower"] | None = None  # required if runs may diverge
    comparisons: Annotated[
        list[Comparison], BeforeValidator(lambda node: node if isinstance(node, list) else [node])
    ] = Field(default=[], alias="comparison")
    expected: Literal["supported", "refuted", "undecided"] | None = None  # only if mathematics gives it
    seconds: Positive = 0.02  # rough time of one value, for the plan
    # In any of the forms of docs/claims.md.
    asked: Sample | Annotated[list[Text | dict[str, Overrides]], Field(min_length=1)] | None = Field(
        None, alias="settings"
    )
    # Of a run over settings. `own`: each seed's best on validation; else of the setting's grid, in every arm.
    rate: Literal["own", "lowest", "middle", "highest"] = "own"
    search: Search | None = None
    manipulation: Manipulation | None = None
