"""The kinds of a comparison: which effects make its sentence true, what it needs, and how it is asked. A new kind is
one line of `KINDS`, or one class where its effect is new."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from normexp.claims.judge.comparison import Comparison

PRACTICAL: Final = "practical"  # the margin of practice, see `comparison.practical_margin`
Side = Literal["beyond", "within", "opposite"]
Region = list[tuple[float, float]]  # of effects, as intervals


class InWords(Protocol):
    """A difference in the unit of its measure: 0.02 -> "2 points higher"; with `way=False` "2 points"."""

    def __call__(self, value: float, /, *, way: bool = True) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of comparison. Its fields say which effects are claimed."""

    name: str
    sign: int = 0  # of the effects that are claimed; 0: either
    within: bool = False  # it holds where the effect lies within the margin, else where it lies beyond
    universal: ClassVar = False  # it speaks of each single value, and has no effect
    slope: ClassVar = False  # its effect is a slope over the factor, else a difference

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
        raise NotImplementedError

    def mistakes(self, asked: "Comparison") -> Iterator[str]:
        """Lines with key, value and remedy for what does not belong together."""
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
        yield from self.needs(asked)
        if self.within and not asked.practical and asked.size <= 0:
            yield f"kind={self.name}: needs a margin above 0, or nothing could show it"
        if asked.arm == asked.baseline:
            yield f"baseline={asked.arm}: is the arm itself; name another one"

    def needs(self, asked: "Comparison") -> Iterator[str]:
        """The mistakes of this kind alone."""
        return iter(())

    def question(self, asked: "Comparison", in_words: InWords) -> str:
        """What is claimed, in words."""
        raise NotImplementedError

    def unit(self, asked: "Comparison", measure: str, factor: str) -> str:
        """What its effects count."""
        raise NotImplementedError


NOT_PRACTICAL = (
    f"margin={PRACTICAL}: is for the difference of two arms in points of error or in nats; give a baseline and leave "
    "out log, or write a number"
)


@dataclass(frozen=True, kw_only=True)
class Difference(Kind):
    """The arm's value minus the baseline's at the same seed, or minus a number: the mean over the levels."""

    practice: str  # what is claimed with the margin of practice

    def effects(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        return values.mean(1)

    def needs(self, asked: "Comparison") -> Iterator[str]:
        if asked.baseline is None and asked.target is None:
            yield f"kind={self.name}: needs a baseline or a target; write target: 0 for 0"
        if asked.log and asked.target is not None and asked.target <= 0:
            yield f"target={asked.target}: has no logarithm; give one above 0 or leave out log"
        if asked.practical and (asked.baseline is None or asked.log):
            yield NOT_PRACTICAL
        if asked.size < 0 and not (self.sign or self.within):
            yield f"margin={asked.margin}: must be 0 or above for kind={self.name}"

    def question(self, asked: "Comparison", in_words: InWords) -> str:
        if asked.practical:
            return self.practice
        if asked.log and asked.target is not None:
            # The value itself is told, and a ratio to the target is claimed.
            by = in_words((self.sign or 1) * asked.size, way=False) if asked.size else ""
            if not self.sign:
                return f"{'no' if self.within else 'a'} difference from {asked.target:g} beyond {by or 0}"
            return f"{self.name} than {asked.target:g}{f' by more than {by}' if by else ''}"
        if not asked.baseline:
            return f"{'no difference beyond' if self.within else f'{self.name} by more than'} {asked.size:g}"
        if not self.sign:
            return f"{'no' if self.within else 'a'} difference beyond {in_words(asked.size, way=False)}"
        if not asked.size:
            return "lower" if self.sign < 0 else "higher"
        return f"{'more than' if asked.size > 0 else 'at most'} {in_words(self.sign * asked.size)}"

    def unit(self, asked: "Comparison", measure: str, factor: str) -> str:
        if asked.log:
            return f"ratio of {measure}"
        return f"difference in {measure}" if asked.baseline or asked.target else measure


@dataclass(frozen=True, kw_only=True)
class Slope(Kind):
    """The slope of the arm's value over the factor, minus the baseline's or a number."""

    slope: ClassVar = True

    def effects(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        x = x - x.mean()
        return values @ x / (x @ x)

    def needs(self, asked: "Comparison") -> Iterator[str]:
        if asked.practical:
            yield NOT_PRACTICAL

    def question(self, asked: "Comparison", in_words: InWords) -> str:
        if not self.within:
            return f"{self.name} by more than {asked.size:g}"
        if asked.target:
            return f"a slope of {asked.target:g} within {asked.size:g}"
        return f"no slope beyond {asked.size:g}"

    def unit(self, asked: "Comparison", measure: str, factor: str) -> str:
        return f"change of {measure} over {factor or 'the factor'}"


@dataclass(frozen=True, kw_only=True)
class Every(Kind):
    """A universal sentence: each single value is at most a bound, at least a bound, or equal to it within a
    tolerance."""

    universal: ClassVar = True

    def mistakes(self, asked: "Comparison") -> Iterator[str]:
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
        Every(name="every"),
        Difference(name="greater", sign=1, practice="higher by enough to matter in practice"),
        Difference(name="smaller", sign=-1, practice="lower by enough to matter in practice"),
        Difference(name="different", practice="different by enough to matter in practice"),
        Difference(name="equivalent", within=True, practice="no difference that matters in practice"),
        Slope(name="increasing", sign=1),
        Slope(name="decreasing", sign=-1),
        Slope(name="flat", within=True),
    )
}
