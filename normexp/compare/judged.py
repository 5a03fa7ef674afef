"""The differences of one look: paired over seeds, Holm over comparisons, and the error rate divided among the looks."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean, holm
from normexp.claims.judge.outcomes import Setting, paired_runs
from normexp.claims.judge.settings_count import runs_with_guesses
from normexp.claims.spec.claim import Claim

BETTER, WORSE, EQUAL, OPEN = "smaller", "larger", "equal within the margin", "not decided"
VERBS = {OPEN: "is not decided against", EQUAL: "equals, within the margin,"}
UNITS = {"error": ("points", "%", 2), "loss": ("nats", "nats", 3)}  # of a difference, of a value, digits


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
    failed: int


@dataclass(frozen=True)
class Arm:
    """One norm at one batch size: mean over seeds with its 95% interval, a failed run counted as a guess."""

    norm: str
    level: Any
    mean: float
    interval: Ends
    values: list[float]
    failed: int


@dataclass(frozen=True)
class Look:
    """What is known after so many seeds. `alpha` is the error rate that this look may spend."""

    seeds: int
    alpha: float
    arms: list[Arm]
    differences: list[Difference]

    @property
    def decided(self) -> bool:
        return all(difference.word != OPEN for difference in self.differences)


def look(setting: Setting, claim: Claim, looks: int) -> Look:
    """Judge one look of `looks` planned ones. Each may spend ALPHA / looks, so that all together err in at most ALPHA,
    by whatever rule they stop (Bonferroni over looks, Holm within one)."""
    alpha, failed = ALPHA / looks, {key: int(arm.failed.sum()) for key, arm in setting.outcomes.items()}
    outcomes = runs_with_guesses(setting, setting.outcomes) or paired_runs(dict(setting.outcomes))
    arms, differences = [], []
    for norm, level in itertools.product(claim.arms, claim.levels):
        values = outcomes[norm, level].values
        mean = SeedMean.of(values)
        arms.append(
            Arm(norm, level, mean.effect, mean.interval(1 - ALPHA), values.tolist(), failed[norm, level])
        )
    reads = [(comparison, comparison.reads(outcomes)) for comparison in claim.comparisons]
    effects = [
        (comparison, read, SeedMean.of(comparison.effects(read)), comparison.margin_in(read, setting.measure))
        for comparison, read in reads
    ]
    p_values = holm([mean.p_of(comparison, margin) for comparison, _, mean, margin in effects])
    for (comparison, read, mean, margin), p in zip(effects, p_values, strict=True):
        lost = sum(failed[key] for key in read if key[0] == comparison.arm)
        word = word_of(mean.effect, margin) if p <= alpha else OPEN
        named, level = comparison.named_arm, "" if comparison.at is None else comparison.at
        interval = mean.interval(1 - alpha)
        differences.append(Difference(named, level, mean.effect, interval, margin, float(p), word, lost))
    return Look(claim.seeds, alpha, arms, differences)


def word_of(effect: float, margin: float) -> str:
    """What a decided effect is, of values of which lower ones are better."""
    return EQUAL if abs(effect) <= margin else BETTER if effect < 0 else WORSE


def at(level: Any, before: str = " at ") -> str:
    """The batch size behind a norm; empty if there is only one."""
    return "" if level == "" else f"{before}{level}"


def finding(look: Look, baseline: str, measure: str) -> str:
    """The result in sentences."""
    sentences = []
    for difference in look.differences:
        low, high = (show(end, measure, sign=True) for end in difference.interval)
        numbers = f"{show(difference.effect, measure, sign=True)} {UNITS[measure][0]} ({low} to {high})"
        verb = VERBS.get(difference.word, f"is {difference.word} than")
        where = at(difference.level, " at batch size ")
        sentences.append(f"The {measure} of {difference.norm}{where} {verb} that of {baseline}: {numbers}.")
    return " ".join(sentences)


def show(value: float, measure: str, *, sign: bool = False) -> str:
    """An error in points, a loss in nats."""
    if not np.isfinite(value):
        return "unknown" if value != value else "−∞" if value < 0 else "∞"
    number = 100 * value if measure == "error" else value
    return f"{number:{'+' if sign else ''}.{UNITS[measure][2]}f}".replace("-", "−")


def table_tex(look: Look, claim: Claim, measure: str) -> str:
    """A table for LaTeX with booktabs: norms in rows, batch sizes in columns, mean and half of the 95% interval."""
    shown = f"test {measure} ({UNITS[measure][1]})".replace("%", "\\%")
    rows = pd.DataFrame({"norm": [norm.replace("_", "\\_") for norm in claim.arms]})
    for level in claim.levels:
        cells = []
        for arm in (arm for arm in look.arms if arm.level == level):
            half = (arm.interval[1] - arm.interval[0]) / 2
            width = f" \\pm {show(half, measure)}" if np.isfinite(half) else ""
            cells.append(f"${show(arm.mean, measure)}{width}$".replace("−", "-"))
        rows[at(level, "batch ") or shown] = cells
    style = rows.style.hide(axis="index").to_latex(hrules=True, column_format=f"l{'r' * len(claim.levels)}")
    return f"% {shown}: mean and half of its 95\\% interval; needs \\usepackage{{booktabs}}\n{style}"
