"""One comparison: its arms, the effect of each seed, the smallest effect that matters, and the side of it."""

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from normexp.claims.judge.kinds import KINDS, PRACTICAL, Kind, Side
from normexp.claims.judge.outcomes import ByArm, unreached_runs
from normexp.claims.spec.cell import as_number

if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal[tuple(KINDS)]

Number = Annotated[int | float, Field(allow_inf_nan=False)]
Bound = Number | Annotated[list[Number], Field(min_length=1)]
Bounds = Bound | dict[str, Bound]
NUMBERS = {"target", "margin", "at_most", "at_least", "equals", "tolerance"}
# What matters in practice, in shares of wrong answers: up to this error of the baseline, so many points or this share.
FINE_ERROR, FINE_MARGIN, COARSE_ERROR, MIDDLE_SHARE, COARSE_MARGIN = 0.03, 0.003, 0.10, 0.10, 0.01
LOSS_MARGIN = 0.02  # nats
ROUNDING = 1e-9  # of the largest value: effects that are closer are equal
PRACTICAL_MARGINS = (FINE_ERROR, FINE_MARGIN, COARSE_ERROR, MIDDLE_SHARE, COARSE_MARGIN, LOSS_MARGIN)


class Comparison(BaseModel):
    """How values are compared. The effect of a seed depends on the kind:

    - greater, smaller, different, equivalent: the value of `arm` minus the value of `baseline` at the same seed, or
      minus the number `target`. It is the mean over the factor's levels, or the value at one level `at`.
    - increasing, decreasing, flat: the slope of the value over the factor, minus the slope of `baseline` or the number
      `target` if there is one.

    `margin` is the smallest effect that matters, fixed beforehand: a number, or `practical` (see `practical_margin`).
    `log` compares logarithms of values. `log2_factor` fits slopes over log2 of the factor.
    `every` is a universal sentence: each single value is at most a bound, at least a bound, or equal to it within
    `tolerance`. A bound is a number, a list along the factor, or one of these for each arm.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    kind: KindName
    arm: str | None = None  # None: all arms, only for `every`
    baseline: str | None = None
    target: Number | None = None  # a comparison with 0 must be asked for
    at: Any = None
    margin: Number | Literal["practical"] = 0.0
    log: bool = False
    log2_factor: bool = False
    at_most: Bounds | None = None
    at_least: Bounds | None = None
    equals: Bounds | None = None
    tolerance: Annotated[Number, Field(ge=0)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        return node | {key: _number(key, node[key]) for key in NUMBERS & node.keys()}

    @model_validator(mode="after")
    def _belong_together(self) -> "Comparison":
        for mistake in self.rule.mistakes(self):
            raise ValueError(mistake)
        return self

    @property
    def rule(self) -> Kind:
        """What its kind says."""
        return KINDS[self.kind]

    @property
    def bounds(self) -> dict[str, Bounds]:
        """The bounds of single values that are given, by their keys."""
        keys = {"at_most": self.at_most, "at_least": self.at_least, "equals": self.equals}
        return {key: bound for key, bound in keys.items() if bound is not None}

    @property
    def practical(self) -> bool:
        """Whether the margin is that of practice, which depends on the baseline's value."""
        return self.margin == PRACTICAL

    @property
    def size(self) -> float:
        """The margin that was written; 0 for that of practice. Below 0 the sentence claims no worse than that."""
        return 0.0 if self.practical else float(self.margin)

    @property
    def named_arm(self) -> str:
        """`arm`, which every kind but `every` has."""
        assert self.arm is not None
        return self.arm

    def shown(self) -> dict[str, Any]:
        """The fields that were set, except a target of 0, which changes nothing."""
        fields = self.model_dump(exclude_defaults=True)
        return {name: value for name, value in fields.items() if name != "target" or value}

    def margin_in(self, outcomes: ByArm, quantity: str) -> float:
        """The margin in a setting with these outcomes."""
        if not self.practical:
            return self.size
        baseline = [runs.values.mean() for (arm, _), runs in outcomes.items() if arm == self.baseline]
        return practical_margin(float(np.mean(baseline)) if baseline else math.nan, quantity)

    def reads(self, outcomes: ByArm) -> ByArm:
        """The outcomes that the effect is made of."""
        arms = (self.arm, self.baseline)
        return {
            (arm, level): runs
            for (arm, level), runs in outcomes.items()
            if arm in arms and self.at in (None, level)
        }

    def levels(self, outcomes: ByArm) -> list:
        """The levels that are compared."""
        return [level for arm, level in outcomes if arm == self.named_arm and self.at in (None, level)]

    def values(self, outcomes: ByArm, arm: str) -> np.ndarray:
        """(n, levels) the values of an arm, with `log` their logarithms. Raises ValueError for a value without one."""
        values = np.stack([outcomes[arm, level].values for level in self.levels(outcomes)], 1)
        if self.log and (values <= 0).any():
            raise ValueError("log=true: a value of 0 or below has no logarithm; compare without log")
        return np.log(values) if self.log else values

    def sides(self, effect: float, margin: float, outcomes: ByArm) -> set[Side]:
        """Where an effect may lie: on one side of the margin, and further out where values are lower bounds. Where an
        arm never reached its target the effect is at least this, where the baseline did not at most, and a slope may
        be any."""
        unreached = unreached_runs(outcomes)
        ends = [math.inf] * (self.arm in unreached) + [-math.inf] * (self.baseline in unreached)
        ends = [-math.inf, math.inf] if unreached and self.rule.slope else ends
        return {self.rule.side(end, margin) for end in (effect, *ends)}

    def settled(self, effect: float, margin: float, outcomes: ByArm) -> float:
        """The mean of effects; where rounding alone tells it from 0 or an end of the margin, that number. Shares of one
        test set and steps often lie exactly there, which is not beyond."""
        arms = (self.values(outcomes, arm) for arm in (self.named_arm, self.baseline) if arm)
        near = 2 * ROUNDING * max(float(np.abs(values).max()) for values in arms)
        return next((end for end in (0.0, margin, -margin) if abs(effect - end) <= near), effect)

    def effects(self, outcomes: ByArm) -> np.ndarray:
        """(n,) the effect of each seed, not finite where a value is not. Effects that differ by rounding are equal."""
        arm = self.values(outcomes, self.named_arm)
        baseline = self.values(outcomes, self.baseline) if self.baseline else np.zeros_like(arm)
        x = np.array(self.levels(outcomes), float) if self.rule.slope else np.zeros(0)
        effects = self.rule.effects(arm - baseline, np.log2(x) if self.log2_factor else x)
        scale = ROUNDING * max(np.abs(arm).max(), np.abs(baseline).max())
        if np.isfinite(scale) and scale > 0:
            effects = np.round(effects / scale) * scale
        target = self.target or 0.0
        if target and self.log and not self.rule.slope:
            target = math.log(target)  # that of a slope of logarithms is no value, and stays
        return effects - target


def _number(key: str, value: Any) -> Any:
    """Numbers that YAML 1.1 reads as text. Raises ValueError for percent."""
    if isinstance(value, list):
        return [_number(key, part) for part in value]
    if isinstance(value, dict):
        return {name: _number(key, part) for name, part in value.items()}
    if match := re.fullmatch(r"(-?[\d.]+) ?%", str(value)):
        raise ValueError(f"{key}={value}: must be a number; write {float(match[1]) / 100:g}")
    return as_number(value)


def practical_margin(baseline: float, quantity: str) -> float:
    """The smallest difference that matters in practice. Errors: .3 points where the baseline errs under 3%, a tenth of
    its errors up to 10%, one point above. Losses: .02 nats."""
    if quantity == "loss":
        return LOSS_MARGIN
    if baseline < FINE_ERROR:
        return FINE_MARGIN
    return MIDDLE_SHARE * baseline if baseline <= COARSE_ERROR else COARSE_MARGIN
