"""A comparison: what is fixed before its numbers are seen, and what each look at them decides. Differences are paired
over seeds where these pair, with Holm over comparisons, and the error rate divided among the looks."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.judge.comparison import practical_margin
from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean, holm
from normexp.claims.judge.kinds import PRACTICAL
from normexp.claims.judge.outcomes import Outcomes
from normexp.compare.effect import DIFFERENT, Effect, effect_of, over_examples, seeds_to_decide, steps_ratio
from normexp.runs.metrics import HIGHER, LOWER, higher_is_better, last_word
from normexp.runs.table import FEWEST_SEEDS

RUN = ["arm", "level", "seed"]  # what tells runs apart
FIRST = 5  # seeds of the first look; each further look has twice as many, up to the most
LARGE = 1e9  # from here on, numbers are shown with an exponent
BETTER, WORSE, EQUAL, OPEN = "better", "worse", "equal within the margin", "not decided"


@dataclass(frozen=True)
class Metric:
    """What is compared: `scale` 100 shows shares as points; `measure` names a margin of practice, if there is one."""

    name: str
    higher: bool = False
    unit: str = ""
    scale: float = 1.0
    digits: int = 3
    measure: str = "value"

    def show(self, value: float, *, sign: bool = False) -> str:
        """A number in the unit of the metric."""
        form = f".{self.digits}f" if abs(self.scale * value) < LARGE else ".4g"
        text = f"{self.scale * value:{'+' if sign else ''}{form}}"
        return text.replace("-", "−").replace("inf", "∞").replace("nan", "–")

    def range(self, ends: Ends, *, sign: bool = False) -> str:
        """Both ends of an interval; a dash where there is none."""
        known = all(map(math.isfinite, ends))
        return " to ".join(self.show(end, sign=sign) for end in ends) if known else "–"


METRICS = {
    "test/error": Metric("test error", False, "points", 100.0, 2, "error"),
    "test/loss": Metric("test loss", False, "nats", 1.0, 3, "loss"),
}


def metric_of(name: str, better: str | None, margin: float | str | None, *, shares: bool = False) -> Metric:
    """A metric of any name. Raises ValueError where nobody says which way is better, or what difference matters. That
    is known of test/error and test/loss, by the margin of practice or where errors are `shares`."""
    number = None if isinstance(margin, str) else margin
    if (known := METRICS.get(name)) and (shares or number is None):
        higher_is_better(name, better)
        return known
    if number is None:
        more = "" if better or last_word(name) in LOWER | HIGHER else ", and better=higher or better=lower"
        raise ValueError(
            f"margin: practice knows none for {name}; write margin=NUMBER, the smallest difference that matters{more}"
        )
    higher = higher_is_better(name, better)
    return Metric(name, higher, digits=min(max(0, 1 - math.floor(math.log10(number))), 15) if number else 3)


def guess_of(metric: Metric, chance_loss: Any) -> Any:
    """What guessing gives by its loss; nan where the metric does not say it."""
    return {"error": 1 - np.exp(-chance_loss), "loss": chance_loss}.get(metric.measure, math.nan)


@dataclass(frozen=True, kw_only=True)
class Design:
    """One comparison.

    Attributes:
        norms: the arms; the first is the baseline.
        levels: batch sizes or settings; "" alone if there is one.
        level_name: what levels are.
        margin: the smallest difference that matters, or `practical`.
        looks: numbers of seeds at which the table is looked at.
        paired: whether equal seeds pair.
        spread: standard deviation of runs of one arm, assumed where the runs do not say it; 0: the margin.
        curve: what curves are of.
        rates: learning rates, the same for every norm. A training alone has these, a budget and words.
        budget: minutes of one core after which no further look begins.
        words: what all runs share.
    """

    name: str
    norms: tuple[str, ...]
    metric: Metric
    margin: Any
    looks: tuple[int, ...]
    levels: tuple[Any, ...] = ("",)
    level_name: str = "batch size"
    paired: bool = True
    spread: float = 0.0
    curve: str = "value"
    rates: tuple[float, ...] = ()
    budget: float = math.inf
    words: tuple[str, ...] = ()

    @property
    def baseline(self) -> str:
        return self.norms[0]

    @property
    def of_sizes(self) -> bool:
        """Whether levels are batch sizes, of one setting."""
        return self.level_name == "batch size"

    def named(self, norm: Any, level: Any) -> str:
        """A norm, and where there are several levels, at which."""
        return norm if level == "" else f"{norm}{' at batch size' if self.of_sizes else ' in'} {level}"


def planned_looks(most: int) -> tuple[int, ...]:
    """Numbers of seeds: 5, 10, 20, ..., and the most."""
    looks = [min(FIRST, most)]
    while looks[-1] < most:
        looks.append(min(2 * looks[-1], most))
    return tuple(looks)


@dataclass(frozen=True)
class Arm:
    """One norm at one level: mean over seeds with its 95% interval, a failed run counted as a guess. `name` says the
    level, too, where there are several."""

    norm: str
    level: Any
    name: str
    mean: float
    interval: Ends
    runs: int
    failed: int


@dataclass(frozen=True, kw_only=True)
class Difference(Effect):
    """An arm minus the baseline at one level. `p` is adjusted for the other comparisons of the look, and `word` is what
    it decides at the level of one look. A spread is `assumed` where the runs do not say it, and `more` seeds an arm
    would probably decide it then. `steps` is the ratio of steps to an equal value of a curve."""

    arm: Arm
    baseline: Arm
    interval: Ends
    margin: float
    p: float
    word: str
    assumed: bool
    more: int | None
    steps: tuple[float, Ends] | None

    @property
    def effect(self) -> float:
        return self.mean.effect

    @property
    def relative(self) -> float:
        """The effect divided by the baseline's value."""
        return self.effect / self.baseline.mean if self.baseline.mean > 0 else math.nan


@dataclass(frozen=True)
class Look:
    """What is known after so many seeds. `alpha` is the error rate that this look may spend."""

    seeds: int
    alpha: float
    design: Design
    arms: list[Arm]
    differences: list[Difference]
    guess: float | None = None

    @property
    def open(self) -> list[Difference]:
        """The differences that are not decided."""
        return [difference for difference in self.differences if difference.word == OPEN]


def look(results: pd.DataFrame, design: Design, guess: float | None = None) -> Look:
    """Judge one look of those planned. Each may spend an equal part of ALPHA, so that all together err in at most
    ALPHA, by whatever rule they stop (Bonferroni over looks, Holm within one).

    Args:
        results: a row for each finished run: arm, level, seed, value, failed, and as arrays or None its curve and its
            single test examples, where these are known.
        guess: the value of a run that learned nothing.
    """
    alpha, groups = ALPHA / len(design.looks), dict(iter(results.groupby(["arm", "level"])))
    cells = {}
    for key in itertools.product(design.norms, design.levels):
        if key in groups:
            rows = groups[key].sort_values("seed").set_index("seed", drop=False)
            runs = Outcomes(*(rows[name].to_numpy() for name in ("seed", "value", "failed")))
            failed, runs = int(runs.failed.sum()), runs if guess is None else runs.guessing(guess)
            mean = SeedMean.of(runs.values[~runs.failed])
            arm = Arm(*key, design.named(*key), mean.effect, mean.interval(1 - ALPHA), len(rows), failed)
            cells[key] = arm, runs, rows
    found = []
    for norm, level in itertools.product(design.norms[1:], design.levels):
        if (norm, level) in cells and (design.baseline, level) in cells:
            (arm, runs, rows), (baseline, others, base) = cells[norm, level], cells[design.baseline, level]
            effect = effect_of(runs, others, paired=design.paired)
            if examples := in_pairs("examples", rows, base):
                z = np.stack([a - b for a, b in examples])
                effect = replace(effect, mean=over_examples(z), seeds=len(z), paired=True)
            practical = practical_margin(baseline.mean, design.metric.measure)
            margin = practical if design.margin == PRACTICAL else float(design.margin)
            steps = steps_ratio(in_pairs("curve", rows, base), 1 - alpha)
            found.append((arm, baseline, effect, margin, steps))
    p_values = holm([p_of(effect, margin) for *_, effect, margin, _ in found])
    differences = []
    for (arm, baseline, effect, margin, steps), p in zip(found, p_values, strict=True):
        value = effect.mean.effect
        word = word_of(value, margin, higher=design.metric.higher) if p <= alpha else OPEN
        spread, needed = effect.spread or math.sqrt(2) * (design.spread or margin), None
        if word == OPEN and spread and math.isfinite(value):
            level, pairs = alpha / len(found), effect.paired and bool(effect.spread)
            needed = seeds_to_decide(value, spread, margin, level, paired=pairs, fewest=effect.seeds + 1)
        differences.append(
            Difference(
                **vars(effect) | {"spread": spread}, arm=arm, baseline=baseline, margin=margin, p=float(p), word=word,
                interval=effect.mean.interval(1 - alpha), assumed=not effect.spread,
                more=needed and needed - effect.seeds, steps=steps,
            )
        )  # fmt: skip
    arms = [arm for arm, *_ in cells.values()]
    return Look(min(arm.runs for arm in arms), alpha, design, arms, differences, guess)


def p_of(effect: Effect, margin: float) -> float:
    """Of one comparison; 1 of fewer than five seeds, which rank nothing."""
    return effect.mean.p_of(DIFFERENT, margin) if effect.seeds >= FEWEST_SEEDS else 1.0


def word_of(effect: float, margin: float, *, higher: bool = False) -> str:
    """What a decided effect is."""
    return EQUAL if abs(effect) <= margin else BETTER if (effect > 0) == higher else WORSE


def in_pairs(name: str, arm: pd.DataFrame, baseline: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """The arrays of a column at the seeds at which both arms have one."""
    columns = [rows[name].dropna() if name in rows else pd.Series() for rows in (arm, baseline)]
    return [(columns[0][seed], columns[1][seed]) for seed in columns[0].index.intersection(columns[1].index)]
