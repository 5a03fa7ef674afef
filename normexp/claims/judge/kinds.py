"""The kinds of a comparison: which effects make its sentence true, and what it needs. A new kind is one line of
`KINDS`."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from normexp.claims.judge.comparison import Comparison

PRACTICAL: Final = "practical"  # the margin of practice, see `comparison.practical_margin`
Side = Literal["beyond", "within", "opposite"]
Region = list[tuple[float, float]]  # of effects, as intervals
NOT_PRACTICAL = (
    f"margin={PRACTICAL}: is for the difference of two arms in points of error or in nats; give a baseline and leave "
    "out log, or write a number"
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of comparison. Its fields say what its effect is, and which effects are claimed."""

    name: str
    sign: int = 0  # of the effects that are claimed; 0: either
    within: bool = False  # it holds where the effect lies within the margin, else where it lies beyond
    slope: bool = False  # its effect is a slope over the factor, else the mean over it
    universal: bool = False  # it speaks of each single value, and has no effect

    def region(self, margin: float) -> Region:
        """The effects with which the sentence is true, as intervals."""
        above, below = (margin, math.inf), (-math.inf, -margin)
        if self.within:
            return [(-margin, margin)]
        return [above] if self.sign > 0 else [below] if self.sign < 0 else [below, above]

    def complement(self, margin: float) -> Region:
        """All other effects."""
        ends = [-math.inf, *(end for part in self.region(margin) for end in part), math.inf]
        return list(zip(ends[::2], ends[1::2], strict=True))

    @property
    def true_side(self) -> Side:
        """The side of the margin on which the sentence is true."""
        return "within" if self.within else "beyond"

    def side(self, effect: float, margin: float) -> Side:
        """Where an effect lies. Beyond: further than the margin in the direction of the sentence (without a direction
        above it, or of `different` on both sides). Opposite: further than the margin the other way. A margin below 0
        claims no worse than that."""
        effect = -effect if self.sign < 0 else effect
        if effect > margin or (effect < -margin and not self.within and not self.sign):
            return "beyond"
        return "opposite" if effect < -abs(margin) else "within"

    def effects(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(n,) the effect of each seed, of values (n, levels) at the numbers x (levels,) of the factor."""
        if not self.slope:
            return values.mean(1)
        x = x - x.mean()
        return values @ x / (x @ x)

    def mistakes(self, asked: "Comparison") -> Iterator[str]:
        """Lines with key, value and remedy for what does not belong together."""
        if self.universal:
            yield from self._mistakes_of_bounds(asked)
            return
        if asked.arm is None:
            yield f"kind={self.name}: name the arm"
        if asked.bounds:
            yield f"kind={self.name}: has no at_most, at_least or equals; give a margin"
        if asked.baseline is not None and asked.target is not None:
            yield f"target={asked.target}: there is baseline={asked.baseline} too; keep one"
        if asked.tolerance:
            yield f"tolerance={asked.tolerance:g}: belongs to equals; leave it out, or give a margin"
        if asked.log2_factor and not self.slope:
            yield f"log2_factor=true: belongs to a slope; leave it out of kind={self.name}"
        if asked.baseline is None and asked.target is None and not self.slope:
            yield f"kind={self.name}: needs a baseline or a target; write target: 0 for 0"
        if asked.log and asked.target is not None and asked.target <= 0 and not self.slope:
            yield f"target={asked.target}: has no logarithm; give one above 0 or leave out log"
        if asked.practical and (asked.baseline is None or asked.log or self.slope):
            yield NOT_PRACTICAL
        if asked.size < 0 and not (self.sign or self.within):
            yield f"margin={asked.margin}: must be 0 or above for kind={self.name}"
        if self.within and not asked.practical and asked.size <= 0:
            yield f"kind={self.name}: needs a margin above 0, or nothing could show it"
        if asked.arm == asked.baseline:
            yield f"baseline={asked.arm}: is the arm itself; name another one"

    def _mistakes_of_bounds(self, asked: "Comparison") -> Iterator[str]:
        if not asked.bounds:
            yield "kind=every: give at_most, at_least or equals"
        if asked.baseline or asked.target or asked.margin or asked.log:
            yield "kind=every: has no baseline, target, margin or log; give at_most, at_least or equals"
        if asked.log2_factor or (asked.tolerance and asked.equals is None):
            key = "log2_factor" if asked.log2_factor else "tolerance"
            yield f"kind=every: {key} has nothing to change here; leave it out"


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="every", universal=True),
        Kind(name="greater", sign=1),
        Kind(name="smaller", sign=-1),
        Kind(name="different"),
        Kind(name="equivalent", within=True),
        Kind(name="increasing", sign=1, slope=True),
        Kind(name="decreasing", sign=-1, slope=True),
        Kind(name="flat", within=True, slope=True),
    )
}
