"""A comparison: its design, fixed before the first run, and what each look decides. Differences are paired over seeds,
with Holm over comparisons, and the error rate divided among the looks."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean, holm
from normexp.claims.judge.outcomes import Setting, paired_runs
from normexp.claims.judge.settings_count import runs_with_guesses

FIRST = 5  # seeds of the first look; each further look has twice as many, up to the most
CHOSEN = ("norm", "seed", "lr", "optimizer.lr", "monitor", "name", "outputs")
BETTER, WORSE, EQUAL, OPEN = "smaller", "larger", "equal within the margin", "not decided"
VERBS = {OPEN: "is not decided against", EQUAL: "equals, within the margin,"}
UNITS = {"error": ("points", 2), "loss": ("nats", 3)}  # and digits


@dataclass(frozen=True)
class Design:
    """One comparison.

    Attributes:
        norms: the first is the baseline.
        levels: the batch sizes; "" alone for that of the configuration.
        rates: learning rates, the same for every norm.
        margin: the smallest difference that matters, or `practical`.
        measure: `error` or `loss`, on test.
        looks: numbers of seeds at which the table is looked at.
        budget: minutes of one core after which no further look begins.
        words: overrides of `normexp train` that all runs share.
    """

    name: str
    norms: tuple[str, ...]
    levels: tuple[Any, ...]
    rates: tuple[float, ...]
    margin: Any
    measure: str
    looks: tuple[int, ...]
    budget: float
    words: tuple[str, ...]

    @property
    def baseline(self) -> str:
        return self.norms[0]

    @property
    def comparisons(self) -> list[Comparison]:
        """Each norm against the baseline, at each batch size."""
        return [
            Comparison(kind="different", baseline=self.baseline, margin=self.margin, arm=norm, at=level)
            for norm, level in itertools.product(self.norms[1:], self.levels)
        ]


def check_words(words: Sequence[str]) -> None:
    """Raise ValueError for a word of `normexp train` that the comparison chooses itself."""
    for word in words:
        # Also the rate of the optimizer alone: lr would move nothing.
        if word.partition("=")[0].lstrip("+~") in CHOSEN:
            other = "write norms=, seeds= or rates=, or leave it out"
            raise ValueError(f"{word}: is chosen by the comparison; {other}")


def planned_looks(most: int) -> tuple[int, ...]:
    """Numbers of seeds: 5, 10, 20, ..., and the most."""
    looks = [FIRST]
    while looks[-1] < most:
        looks.append(min(2 * looks[-1], most))
    return tuple(looks)


@dataclass(frozen=True)
class Difference:
    """A norm's value minus the baseline's at one batch size ("" if the comparison has only one).

    `p` is adjusted for the other comparisons of the look; `word` is what it decides at the level of one look.
    """

    norm: str
    level: Any
    effect: float
    interval: Ends
    margin: float
    p: float
    word: str


@dataclass(frozen=True)
class Arm:
    """One norm at one batch size: mean over seeds with its 95% interval, a failed run counted as a guess."""

    norm: str
    level: Any
    mean: float
    interval: Ends
    failed: int


@dataclass(frozen=True)
class Look:
    """What is known after so many seeds. `alpha` is the error rate that this look may spend."""

    seeds: int
    alpha: float
    arms: list[Arm]
    differences: list[Difference]

    @property
    def open(self) -> list[Difference]:
        """The differences that are not decided."""
        return [difference for difference in self.differences if difference.word == OPEN]


def look(setting: Setting, design: Design) -> Look:
    """Judge one look of those planned. Each may spend an equal part of ALPHA, so that all together err in at most
    ALPHA, by whatever rule they stop (Bonferroni over looks, Holm within one)."""
    alpha = ALPHA / len(design.looks)
    failed = {key: int(arm.failed.sum()) for key, arm in setting.outcomes.items()}
    outcomes = runs_with_guesses(setting, setting.outcomes) or paired_runs(setting.outcomes)
    arms = []
    for (norm, level), runs in outcomes.items():
        mean = SeedMean.of(runs.values)
        arms.append(Arm(norm, level, mean.effect, mean.interval(1 - ALPHA), failed[norm, level]))
    means = [
        (comparison, SeedMean.of(comparison.effects(read)), comparison.margin_in(read, setting.measure))
        for comparison in design.comparisons
        for read in [comparison.reads(outcomes)]
    ]
    p_values = holm([mean.p_of(comparison, margin) for comparison, mean, margin in means])
    differences = [
        Difference(
            norm=comparison.named_arm,
            level=comparison.at,
            effect=mean.effect,
            interval=mean.interval(1 - alpha),
            margin=margin,
            p=float(p),
            word=word_of(mean.effect, margin) if p <= alpha else OPEN,
        )
        for (comparison, mean, margin), p in zip(means, p_values, strict=True)
    ]
    return Look(len(next(iter(setting.outcomes.values())).seeds), alpha, arms, differences)


def word_of(effect: float, margin: float) -> str:
    """What a decided effect is, of values of which lower ones are better."""
    return EQUAL if abs(effect) <= margin else BETTER if effect < 0 else WORSE


def at(level: Any, before: str = " at ") -> str:
    """The batch size behind a norm; empty if there is only one."""
    return "" if level == "" else f"{before}{level}"


def finding(look: Look, baseline: str, measure: str) -> str:
    """The result in sentences; of what is not decided, why."""
    sentences = []
    for difference in look.differences:
        low, high = (show(end, measure, sign=True) for end in difference.interval)
        numbers = f"{show(difference.effect, measure, sign=True)} {UNITS[measure][0]} ({low} to {high})"
        verb = VERBS.get(difference.word, f"is {difference.word} than")
        where = at(difference.level, " at batch size ")
        why = f"; {why_open(difference, measure)}" if difference.word == OPEN else ""
        sentences.append(
            f"The {measure} of {difference.norm}{where} {verb} that of {baseline}: {numbers}{why}."
        )
    return " ".join(sentences)


def why_open(difference: Difference, measure: str) -> str:
    """Why a difference is not decided."""
    (low, high), margin = difference.interval, difference.margin
    if not np.isfinite(low):
        return "its seeds give no interval"
    if any(low < end < high for end in (-margin, margin)):
        return f"the interval lies partly within the margin of ±{show(margin, measure)} and partly beyond it"
    return "the interval would decide it alone, but not beside the other comparisons"


def show(value: float, measure: str, *, sign: bool = False) -> str:
    """An error in points, a loss in nats."""
    number = 100 * value if measure == "error" else value
    return f"{number:{'+' if sign else ''}.{UNITS[measure][1]}f}".replace("-", "−").replace("inf", "∞")
