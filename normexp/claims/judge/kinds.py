"""The kinds of a comparison: which effects make its sentence true, what it needs, and how it is asked. A new kind is
one class."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from normexp.claims.judge.comparison import Comparison

PRACTICAL: Final = "practical"  # the margin of practice, see `comparison.practical_margin`
Side = Literal["beyond", "within", "opposite"]
Region = list[tuple[float, float]]  # of effects, as intervals


class InWords(Protocol):
    """A difference in the unit of its measure: 0.02 -> "2 points higher"; with `way=False` "2 points"."""

    def __call__(self, value: float, /, *, way: bool = True) -> str: ...


class Kind:
    """One kind of comparison. Its attributes say which effects are claimed."""

    name: str
    universal = False  # it speaks of each single value, and has no effect
    slope = False  # its effect is a slope over the factor, else a difference
    within = False  # it holds where the effect lies within the margin, else where it lies beyond
    sign = 0  # of the effects that are claimed; 0: either

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
        if asked.bounded:
            yield f"kind={self.name}: has no at_most, at_least or equals; give a margin"
        if asked.baseline is not None and asked.target is not None:
            yield f"target={asked.target}: there is baseline={asked.baseline} too; keep one"
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


class _Difference(Kind):
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

    def question(self, asked: "Comparison", in_words: InWords) -> str:
        if asked.practical:
            return self.practice
        return self.beside_arm(asked, in_words) if asked.baseline else self.beside_number(asked)

    def beside_number(self, asked: "Comparison") -> str:
        return f"{self.name} by more than {asked.size:g}"

    def beside_arm(self, asked: "Comparison", in_words: InWords) -> str:
        if not asked.size:
            return "lower" if self.sign < 0 else "higher"
        return f"{'more than' if asked.size > 0 else 'at most'} {in_words(self.sign * asked.size)}"

    def unit(self, asked: "Comparison", measure: str, factor: str) -> str:
        if asked.log:
            return f"ratio of {measure}"
        return f"difference in {measure}" if asked.baseline or asked.target else measure


class Greater(_Difference):
    """Larger by more than the margin."""

    name, sign, practice = "greater", 1, "higher by enough to matter in practice"


class Smaller(_Difference):
    """Smaller by more than the margin."""

    name, sign, practice = "smaller", -1, "lower by enough to matter in practice"


class Different(_Difference):
    """Larger or smaller by more than the margin."""

    name, practice = "different", "different by enough to matter in practice"

    def needs(self, asked: "Comparison") -> Iterator[str]:
        yield from super().needs(asked)
        if asked.size < 0:
            yield f"margin={asked.margin}: must be 0 or above for kind=different"

    def beside_arm(self, asked: "Comparison", in_words: InWords) -> str:
        return f"a difference beyond {in_words(asked.size, way=False)}"


class Equivalent(_Difference):
    """No further apart than the margin."""

    name, within, practice = "equivalent", True, "no difference that matters in practice"

    def beside_number(self, asked: "Comparison") -> str:
        return f"no difference beyond {asked.size:g}"

    def beside_arm(self, asked: "Comparison", in_words: InWords) -> str:
        return f"no difference beyond {in_words(asked.size, way=False)}"


class _Slope(Kind):
    """The slope of the arm's value over the factor, minus the baseline's or a number."""

    slope = True

    def effects(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        x = x - x.mean()
        return values @ x / (x @ x)

    def needs(self, asked: "Comparison") -> Iterator[str]:
        if asked.practical:
            yield NOT_PRACTICAL

    def question(self, asked: "Comparison", in_words: InWords) -> str:
        return f"{self.name} by more than {asked.size:g}"

    def unit(self, asked: "Comparison", measure: str, factor: str) -> str:
        return f"change of {measure} over {factor or 'the factor'}"


class Increasing(_Slope):
    """A slope above the margin."""

    name, sign = "increasing", 1


class Decreasing(_Slope):
    """A slope below minus the margin."""

    name, sign = "decreasing", -1


class Flat(_Slope):
    """A slope within the margin."""

    name, within = "flat", True

    def question(self, asked: "Comparison", in_words: InWords) -> str:
        if asked.target:
            return f"a slope of {asked.target:g} within {asked.size:g}"
        return f"no slope beyond {asked.size:g}"


class Every(Kind):
    """A universal sentence: each single value is at most a bound, at least a bound, or equal to it within a
    tolerance."""

    name, universal = "every", True

    def mistakes(self, asked: "Comparison") -> Iterator[str]:
        if not asked.bounded:
            yield "kind=every: give at_most, at_least or equals"
        if asked.baseline or asked.target or asked.margin or asked.log:
            yield "kind=every: has no baseline, target, margin or log; give at_most, at_least or equals"


KINDS: dict[str, Kind] = {
    kind.name: kind()
    for kind in (Every, Greater, Smaller, Different, Equivalent, Increasing, Decreasing, Flat)
}
