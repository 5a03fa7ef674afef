"""One comparison: its arms, the smallest effect that matters, and the effects that support or refute it."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.judge.estimate import Estimate, MeanEstimate, RankEstimate, TiedEstimate
from normexp.claims.judge.evidence_table import bounds, difference
from normexp.claims.spec.claim_checks import COMPARISON, check_values

Kind = Literal["every", "greater", "smaller", "different", "equivalent", "increasing", "decreasing", "flat"]
TRENDS = ("increasing", "decreasing", "flat")
DIFFERENCES = ("greater", "smaller", "different", "equivalent")
Region = list[tuple[float, float]]


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
        check_values(node, COMPARISON, path, "comparison.")
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

    def estimate(self, table: pd.DataFrame, better: str | None) -> Estimate:
        """The effect over seeds: by ranks if a value is infinite or censored, else by the mean.

        The values decide this, not the effects: two diverged runs tie, and their difference of 0 is not measured.
        """
        if self.at is not None:
            table = table[table["factor"] == self.at]
        lows, highs = self.effects(table, better)
        values = table[table["arm"].isin([self.arm, self.baseline, self.over])]
        diverged = ~np.isfinite(values["value"].to_numpy(float))
        if diverged.all() and (self.baseline is not None or self.kind in TRENDS):
            return TiedEstimate(lows, highs)
        measured = not diverged.any() and not values["censored"].any() and np.isfinite(lows).all()
        return MeanEstimate(lows) if measured and self.by == "slope" else RankEstimate(lows, highs)

    def effects(self, table: pd.DataFrame, better: str | None) -> tuple[np.ndarray, np.ndarray]:
        both = bounds(table, self.named_arm, better, self.log)  # each (seeds, factors)
        if self.kind in TRENDS:
            x = self._abscissa(table, better)
            both = self._trend(both, x)
            if self.baseline is None:
                target = self.target or 0.0
                return both[0] - target, both[1] - target
            return difference(both, self._trend(bounds(table, self.baseline, better, self.log), x))
        if self.baseline is None:
            if self.target is None:
                raise ValueError(f"kind={self.kind}: needs a baseline or a target; write target: 0 for 0")
            target = math.log(self.target) if self.log else self.target
            return both[0].mean(1) - target, both[1].mean(1) - target
        lows, highs = difference(both, bounds(table, self.baseline, better, self.log))
        return _mean_over_factor(lows, -math.inf), _mean_over_factor(highs, math.inf)

    def _abscissa(self, table: pd.DataFrame, better: str | None) -> np.ndarray:
        """The x values of a trend: (seeds, factors), or (1, factors) if all seeds share them."""
        if self.over is not None:
            return bounds(table, self.over, better, log=False)[0]
        factors = np.sort(table["factor"].unique().astype(float))
        return (np.log2(factors) if self.log2_factor else factors)[None]

    def _trend(self, both: tuple[np.ndarray, np.ndarray], x: np.ndarray) -> tuple:
        lows, highs = both
        if self.by == "rank":
            values = np.where(np.isinf(highs), highs, lows)
            tau = np.array(
                [_kendall(*rows) for rows in zip(np.broadcast_to(x, lows.shape), values, strict=True)]
            )
            return tau, tau
        if not (np.isfinite(lows).all() and np.array_equal(lows, highs)):
            raise ValueError(
                "comparison: a slope needs values that are finite and not censored; use by: rank with 8 seeds"
            )
        x = x - x.mean(1, keepdims=True)
        slopes = (lows * x).sum(1) / (x**2).sum(1)  # (seeds,)
        return slopes, slopes


def _kendall(x: np.ndarray, y: np.ndarray) -> float:
    return 0.0 if (y == y[0]).all() else float(stats.kendalltau(x, y).statistic)


def _mean_over_factor(x: np.ndarray, unknown: float) -> np.ndarray:
    """Mean of each row, (seeds, factors) -> (seeds). A row with infinities of both signs gets `unknown`."""
    with np.errstate(invalid="ignore"):
        mean = x.mean(1)
    return np.where(np.isnan(mean), unknown, mean)
