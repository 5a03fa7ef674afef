"""One comparison: its arms, the effect of each seed, the smallest effect that matters, and the side of it."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from normexp.claims.judge.outcomes import Arm, Outcomes

Kind = Literal["every", "greater", "smaller", "different", "equivalent", "increasing", "decreasing", "flat"]
TRENDS = ("increasing", "decreasing", "flat")
DIFFERENCES = ("greater", "smaller", "different", "equivalent")
EQUAL = ("equivalent", "flat")
PRACTICAL: Final = "practical"
Side = Literal["beyond", "within", "opposite"]
Region = list[tuple[float, float]]  # of effects, as intervals
Number = Annotated[int | float, Field(allow_inf_nan=False)]
Bound = Number | Annotated[list[Number], Field(min_length=1)]
Bounds = Bound | dict[str, Bound]
# What matters in practice, in shares of wrong answers: up to this error of the baseline, so many points or this share.
FINE, FINE_MARGIN, COARSE, SHARE, COARSE_MARGIN = 0.03, 0.003, 0.10, 0.10, 0.01
LOSS_MARGIN = 0.02  # nats
PRACTICAL_MARGINS = (FINE, FINE_MARGIN, COARSE, SHARE, COARSE_MARGIN, LOSS_MARGIN)


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

    kind: Kind
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

    @model_validator(mode="after")
    def _belong_together(self) -> "Comparison":
        kind, margin, differs = self.kind, self.margin, self.kind in DIFFERENCES
        bounded = any(bound is not None for bound in (self.at_most, self.at_least, self.equals))
        mistakes = [
            (kind == "every" and not bounded,
             "kind=every: give at_most, at_least or equals"),
            (kind != "every" and self.arm is None, f"kind={kind}: name the arm"),
            (kind != "every" and bounded,
             f"kind={kind}: has no at_most, at_least or equals; give a margin"),
            (kind == "every" and bool(self.baseline or self.target or self.margin or self.log),
             "kind=every: has no baseline, target, margin or log; give at_most, at_least or equals"),
            (self.baseline is not None and self.target is not None,
             f"target={self.target}: there is baseline={self.baseline} too; keep one"),
            (differs and self.baseline is None and self.target is None,
             f"kind={kind}: needs a baseline or a target; write target: 0 for 0"),
            (differs and self.log and self.target is not None and self.target <= 0,
             f"target={self.target}: has no logarithm; give one above 0 or leave out log"),
            (self.practical and (not differs or self.baseline is None or self.log),
             f"margin={PRACTICAL}: is for the difference of two arms in points of error or in nats; give a baseline "
             "and leave out log, or write a number"),
            (not self.practical and kind in EQUAL and self.size <= 0,
             f"kind={kind}: needs a margin above 0, or nothing could show it"),
            (kind == "different" and self.size < 0,
             f"margin={margin}: must be 0 or above for kind=different"),
            (self.arm is not None and self.arm == self.baseline,
             f"baseline={self.arm}: is the arm itself; name another one"),
        ]  # fmt: skip
        for words in (words for wrong, words in mistakes if wrong):
            raise ValueError(words)
        return self

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
        values = dict(self) | {"target": self.target or None}
        unset = {name: field.default for name, field in type(self).model_fields.items()}
        return {name: value for name, value in values.items() if name == "kind" or value != unset[name]}

    @property
    def holds_if(self) -> Side:
        """The side of the margin on which the sentence is true."""
        return "within" if self.kind in EQUAL else "beyond"

    def side(self, effect: float, margin: float) -> Side:
        """Where an effect lies. Beyond: further than the margin in the direction of the sentence (for an equivalence:
        above it). Opposite: further than the margin the other way. A margin below 0 claims no worse than that."""
        if self.kind in ("smaller", "decreasing"):
            effect = -effect
        if effect > margin or (self.kind == "different" and effect < -margin):
            return "beyond"
        return "opposite" if effect < -abs(margin) else "within"

    def region(self, margin: float) -> Region:
        """The effects with which the sentence is true, as intervals."""
        above, below = (margin, math.inf), (-math.inf, -margin)
        sides = {"greater": [above], "increasing": [above], "smaller": [below], "decreasing": [below]}
        return sides.get(self.kind, [(-margin, margin)] if self.kind in EQUAL else [below, above])

    def complement(self, margin: float) -> Region:
        """All other effects."""
        ends = [-math.inf, *(end for part in self.region(margin) for end in part), math.inf]
        return list(zip(ends[::2], ends[1::2], strict=True))

    def margin_in(self, outcomes: Mapping[Arm, Outcomes], measure: str) -> float:
        """The margin in a setting with these outcomes."""
        if not self.practical:
            return self.size
        baseline = [own.values.mean() for (arm, _), own in outcomes.items() if arm == self.baseline]
        return practical_margin(float(np.mean(baseline)) if baseline else math.nan, measure)

    def reads(self, outcomes: Mapping[Arm, Outcomes]) -> dict[Arm, Outcomes]:
        """The outcomes that the effect is made of."""
        arms = (self.arm, self.baseline)
        return {key: own for key, own in outcomes.items() if key[0] in arms and self.at in (None, key[1])}

    def levels(self, outcomes: Mapping[Arm, Outcomes]) -> list:
        """The levels that are compared."""
        return [level for arm, level in outcomes if arm == self.named_arm and self.at in (None, level)]

    def values(self, outcomes: Mapping[Arm, Outcomes], arm: str) -> np.ndarray:
        """(n, levels) the values of an arm, with `log` their logarithms. Raises ValueError for a value without one."""
        values = np.stack([outcomes[arm, level].values for level in self.levels(outcomes)], 1)
        if self.log and (values <= 0).any():
            raise ValueError("log=true: a value of 0 or below has no logarithm; compare without log")
        return np.log(values) if self.log else values

    def effects(self, outcomes: Mapping[Arm, Outcomes]) -> np.ndarray:
        """(n,) the effect of each seed, not finite where a value is not. Effects that differ by rounding are equal."""
        arm = self.values(outcomes, self.named_arm)
        baseline = self.values(outcomes, self.baseline) if self.baseline else np.zeros_like(arm)
        if self.kind in TRENDS:
            x = np.array(self.levels(outcomes), float)
            effects = _slope(arm - baseline, np.log2(x) if self.log2_factor else x)
        else:
            effects = (arm - baseline).mean(1)
        scale = 1e-9 * max(np.abs(arm).max(), np.abs(baseline).max())
        if np.isfinite(scale) and scale > 0:
            effects = np.round(effects / scale) * scale
        target = self.target or 0.0
        if target and self.log and self.kind not in TRENDS:
            target = math.log(target)  # that of a slope of logarithms is no value, and stays
        return effects - target


def practical_margin(baseline: float, measure: str) -> float:
    """The smallest difference that matters in practice. Errors: .3 points where the baseline errs under 3%, a tenth of
    its errors up to 10%, one point above. Losses: .02 nats."""
    if measure == "loss":
        return LOSS_MARGIN
    if baseline < FINE:
        return FINE_MARGIN
    return SHARE * baseline if baseline <= COARSE else COARSE_MARGIN


def _slope(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The slope of each row of `values` (n, levels) over `x` (levels,): (n,)."""
    x = x - x.mean()
    return values @ x / (x @ x)
