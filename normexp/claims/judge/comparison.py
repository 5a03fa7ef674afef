"""One comparison: its arms, the smallest effect that matters, and the effects that support or refute it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from normexp.claims.judge.estimate import Region
from normexp.claims.judge.outcomes import Arm, Outcomes

Kind = Literal["every", "greater", "smaller", "different", "equivalent", "increasing", "decreasing", "flat"]
TRENDS = ("increasing", "decreasing", "flat")
DIFFERENCES = ("greater", "smaller", "different", "equivalent")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How values are compared. The effect of a seed depends on the kind:

    - greater, smaller, different, equivalent: the value of `arm` minus the value of `baseline` at the same seed, or
      minus the number `target`. It is the mean over the factor's levels, or the value at one level `at`.
    - increasing, decreasing, flat: the slope of the value over the factor, minus the slope of `baseline` or the number
      `target` if there is one. `by: rank` takes Kendall's tau instead of the slope. With `over: ARM` the slope is taken
      over the values of that arm at the same seed and level, instead of the factor.

    `margin` is the smallest effect that matters, fixed beforehand. `log` compares logarithms of values. `log2_factor`
    fits slopes over log2 of the factor.
    `every` is a universal sentence: each single value is at most a bound, at least a bound, or equal to it within
    `tolerance`. A bound is a number, a list along the factor, or one of these for each arm.
    """

    kind: Kind
    arm: str | None = None  # None: all arms, only for `every`
    baseline: str | None = None
    target: float | None = None  # a comparison with 0 must be asked for
    at: Any = None
    margin: float = 0.0
    log: bool = False
    log2_factor: bool = False
    by: Literal["slope", "rank"] = "slope"
    over: str | None = None
    at_most: Any = None
    at_least: Any = None
    equals: Any = None
    tolerance: float = 0.0

    @classmethod
    def read(cls, node: dict[str, Any], path: str) -> "Comparison":
        """A comparison from the values of a yaml, whose names and types were checked. Raises ValueError with one line,
        which begins with `path`, for values that do not belong together."""
        if node.get("kind") not in get_args(Kind):
            raise ValueError(f"{path}: kind={node.get('kind')}: choose from {', '.join(get_args(Kind))}")
        comparison = cls(**node)
        limits = [comparison.at_most, comparison.at_least, comparison.equals]
        if comparison.kind == "every" and all(limit is None for limit in limits):
            raise ValueError(f"{path}: kind=every: give at_most, at_least or equals")
        if comparison.kind != "every" and comparison.arm is None:
            raise ValueError(f"{path}: kind={comparison.kind}: name the arm")
        comparison._check_against(path)
        if comparison.kind in ("equivalent", "flat") and comparison.margin <= 0:
            raise ValueError(
                f"{path}: kind={comparison.kind}: needs a margin above 0, or nothing could show it"
            )
        if comparison.kind == "different" and comparison.margin < 0:
            raise ValueError(
                f"{path}: comparison.margin={comparison.margin}: must be 0 or above for kind=different"
            )
        return comparison

    def _check_against(self, path: str) -> None:
        """Require exactly one of baseline and target for a difference, and at most one for a slope."""
        given = [name for name in ("baseline", "target") if getattr(self, name) is not None]
        if len(given) == 2:
            raise ValueError(f"{path}: target={self.target}: there is baseline={self.baseline} too; keep one")
        if self.kind in DIFFERENCES and not given:
            raise ValueError(f"{path}: kind={self.kind}: needs a baseline or a target; write target: 0 for 0")
        if self.kind in DIFFERENCES and self.log and self.target is not None and self.target <= 0:
            raise ValueError(
                f"{path}: target={self.target}: has no logarithm; give one above 0 or leave out log"
            )

    @property
    def named_arm(self) -> str:
        """`arm`. Raises ValueError for a universal sentence about all arms, which has no effect."""
        if self.arm is None:
            raise ValueError(f"kind={self.kind}: name the arm")
        return self.arm

    def shown(self) -> dict[str, Any]:
        """The fields that were set, except a target of 0, which changes nothing."""
        values = {field.name: getattr(self, field.name) for field in fields(self)} | {
            "target": self.target or None
        }
        unset = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in values.items() if name == "kind" or value != unset[name]}

    def supporting(self) -> Region:
        """The effects that support the sentence."""
        m = self.margin
        if self.kind in ("greater", "increasing"):
            return [(m, math.inf)]
        if self.kind in ("smaller", "decreasing"):
            return [(-math.inf, -m)]
        return [(-math.inf, -m), (m, math.inf)] if self.kind == "different" else [(-m, m)]

    def refuting(self) -> Region:
        """All other effects. For a claimed difference, these include effects that are too small to matter."""
        m = self.margin
        if self.kind in ("greater", "increasing"):
            return [(-math.inf, m)]
        if self.kind in ("smaller", "decreasing"):
            return [(-m, math.inf)]
        return [(-m, m)] if self.kind == "different" else [(-math.inf, -m), (m, math.inf)]

    def weights(self, levels: list) -> dict[Arm, float]:
        """The weight of each arm and level. The effect is the weighted sum of their values, minus the target."""
        if self.over is not None:
            raise ValueError(
                f"over={self.over}: is not judged over settings; compare with a baseline or a target"
            )
        levels = levels if self.at is None else [self.at]
        if self.kind in TRENDS:
            x = self._x(levels)
            each = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
        else:
            each = np.full(len(levels), 1 / len(levels))
        arm, baseline = self.named_arm, self.baseline
        found = {(arm, level): float(weight) for level, weight in zip(levels, each, strict=True)}
        if baseline is not None:
            for level, weight in zip(levels, each, strict=True):
                found[baseline, level] = found.get((baseline, level), 0.0) - float(weight)
        return found

    def reads(self, outcomes: Mapping[Arm, Outcomes]) -> dict[Arm, Outcomes]:
        """The outcomes that the effect is made of."""
        arms = (self.arm, self.baseline, self.over)
        return {key: own for key, own in outcomes.items() if key[0] in arms and self.at in (None, key[1])}

    @property
    def scaled_target(self) -> float:
        """Of values the logarithm of the target if logarithms are compared; 0 if there is none. A target of a slope of
        logarithms is no value, and stays."""
        if self.target and self.log and self.kind not in TRENDS:
            return math.log(self.target)
        return self.target or 0.0

    def effects(self, outcomes: Mapping[Arm, Outcomes], better: str | None) -> np.ndarray:
        """(n,) the effect of each seed.

        A value that is not finite (a diverged run) is infinitely bad, in the direction opposite to `better`, and two of
        them tie. Raises ValueError if there is one without a direction, or in a slope.
        """
        levels = [level for arm, level in outcomes if arm == self.named_arm and self.at in (None, level)]
        if not levels:
            raise ValueError(f"comparison: no value of arm={self.arm} at={self.at}; check the yaml")
        arm, baseline = (
            self._values(outcomes, name, levels, better) for name in (self.named_arm, self.baseline)
        )
        if self.kind in TRENDS:
            x = self._x(levels)[None]
            if self.over is not None:
                x = np.stack([outcomes[self.over, level].values for level in levels], 1)
            arm, baseline = (None if own is None else self._trend(own, x) for own in (arm, baseline))
        with np.errstate(invalid="ignore"):  # of equal infinities
            effects = np.asarray(
                arm if baseline is None else np.nan_to_num(arm - baseline, posinf=math.inf, neginf=-math.inf)
            )
            if effects.ndim == 2:
                effects = np.nan_to_num(effects.mean(1), posinf=math.inf, neginf=-math.inf)
        return effects - self.scaled_target

    def _values(
        self, outcomes: Mapping[Arm, Outcomes], arm: str | None, levels: list, better: str | None
    ) -> np.ndarray | None:
        """(n, levels) the values of an arm, or their logarithms; None without an arm."""
        if arm is None:
            return None
        values = np.stack([outcomes[arm, level].values for level in levels], 1)
        diverged = ~np.isfinite(values)
        if diverged.any() and better is None:
            raise ValueError(
                f"evidence: arm={arm} has {diverged.sum()} values that are not finite and the claim does not say which "
                "direction is worse; set better: lower or better: higher"
            )
        values = np.where(diverged, math.inf if better == "lower" else -math.inf, values)
        if not self.log:
            return values
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(values, 0))

    def _x(self, levels: list) -> np.ndarray:
        """The levels as numbers, over which slopes are taken."""
        x = np.array(levels, float)
        return np.log2(x) if self.log2_factor else x

    def _trend(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The slope of each row of `values` (n, levels) over `x` (n or 1, levels), or Kendall's tau: (n,)."""
        if self.by == "rank":
            rows = zip(np.broadcast_to(x, values.shape), values, strict=True)
            return np.array(
                [0.0 if (y == y[0]).all() else stats.kendalltau(own, y).statistic for own, y in rows]
            )
        if not np.isfinite(values).all():
            raise ValueError("comparison: a slope needs values that are finite; use by: rank with 8 seeds")
        x = x - x.mean(1, keepdims=True)
        return (values * x).sum(1) / (x**2).sum(1)
