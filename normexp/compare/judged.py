"""The differences of one look: paired over seeds, Holm over comparisons, and the error rate divided among the looks."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from normexp.claims.judge.estimate import ALPHA, Ends, SeedMean, holm
from normexp.claims.judge.one_setting import paired_runs
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_count import counted
from normexp.claims.spec.claim import Claim

BETTER, WORSE, EQUAL, OPEN = "smaller", "larger", "equal within the margin", "not decided"


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
        return all(one.word != OPEN for one in self.differences)


def look(setting: Setting, claim: Claim, looks: int) -> Look:
    """Judge one look of `looks` planned ones. Each may spend ALPHA / looks, so that all together err in at most ALPHA,
    by whatever rule they stop (Bonferroni over looks, Holm within one)."""
    alpha = ALPHA / looks
    known = counted(setting, setting.outcomes) or paired_runs(dict(setting.outcomes))
    means, margins = [], []
    for comparison in claim.comparisons:
        own = comparison.reads(known)
        baseline = [
            o.values.mean() for (arm, _), o in own.items() if arm == comparison.baseline and len(o.values)
        ]
        margins.append(comparison.margin_at(float(baseline[0]) if baseline else 0.0, setting.measure))
        means.append(SeedMean.of(comparison.effects(own)))
    raw = [
        min(mean.p_within(c.region(m)), mean.p_within(c.complement(m)))
        for mean, m, c in zip(means, margins, claim.comparisons, strict=True)
    ]
    differences = []
    for comparison, mean, margin, p in zip(claim.comparisons, means, margins, holm(raw), strict=True):
        failed = sum(
            int(o.failed.sum())
            for (arm, _), o in comparison.reads(setting.outcomes).items()
            if arm == comparison.arm
        )
        level = "" if comparison.at is None else comparison.at
        word = word_of(mean.effect, margin) if p <= alpha else OPEN
        differences.append(
            Difference(
                comparison.named_arm,
                level,
                mean.effect,
                mean.interval(1 - alpha),
                margin,
                float(p),
                word,
                failed,
            )
        )
    arms = []
    for norm, level in itertools.product(claim.arms, claim.levels):
        values = known[norm, level].values
        mean = SeedMean.of(values)
        failed = int(setting.outcomes[norm, level].failed.sum())
        arms.append(Arm(norm, level, mean.effect, mean.interval(1 - ALPHA), values.tolist(), failed))
    return Look(claim.seeds, alpha, arms, differences)


def word_of(effect: float, margin: float) -> str:
    """What a decided effect is, of values of which lower ones are better."""
    return EQUAL if abs(effect) <= margin else BETTER if effect < 0 else WORSE


def finding(found: Look, baseline: str, measure: str) -> str:
    """The result in sentences."""
    sentences = []
    for one in found.differences:
        where = f" at batch size {one.level}" if one.level != "" else ""
        low, high = (show(end, measure, sign=True) for end in one.interval)
        unit = "points" if measure == "error" else "nats"
        numbers = f"{show(one.effect, measure, sign=True)} {unit} ({low} to {high})"
        verb = {OPEN: "is not decided against", EQUAL: "equals, within the margin,"}.get(
            one.word, f"is {one.word} than"
        )
        sentences.append(f"The {measure} of {one.norm}{where} {verb} that of {baseline}: {numbers}.")
    return " ".join(sentences)


def show(value: float, measure: str, *, sign: bool = False) -> str:
    """An error in points, a loss in nats."""
    if not np.isfinite(value):
        return "unknown" if value != value else "−∞" if value < 0 else "∞"
    number = 100 * value if measure == "error" else value
    return f"{number:{'+' if sign else ''}.{2 if measure == 'error' else 3}f}".replace("-", "−")


def table_tex(found: Look, claim: Claim, measure: str) -> str:
    """A table for LaTeX with booktabs: norms in rows, batch sizes in columns, mean and half of the 95% interval."""
    levels: Sequence[Any] = claim.levels
    shown = "test error (\\%)" if measure == "error" else "test loss (nats)"
    heads = " & ".join(f"batch {level}" if level != "" else shown for level in levels)
    lines = [
        f"% {shown}: mean and half of its 95\\% interval; needs \\usepackage{{booktabs}}",
        f"\\begin{{tabular}}{{l{'r' * len(levels)}}}",
        "\\toprule",
        f"norm & {heads} \\\\",
        "\\midrule",
    ]
    for norm in claim.arms:
        cells = []
        for arm in (arm for arm in found.arms if arm.norm == norm):
            half = (arm.interval[1] - arm.interval[0]) / 2
            text = show(arm.mean, measure)
            cells.append(f"${text} \\pm {show(half, measure)}$" if np.isfinite(half) else f"${text}$")
        name = norm.replace("_", "\\_")
        lines.append(f"{name} & {' & '.join(cells)} \\\\".replace("−", "-"))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])
