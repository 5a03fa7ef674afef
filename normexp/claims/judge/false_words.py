"""How often the judge's words are false, and how often it finds an effect, on effects whose truth is known.

A word is false if it contradicts the true mean. Every shape is tested with the questions where errors are likeliest:
the truth is exactly the margin, on either side, for greater, smaller and equivalent, and 0 for different.
"""

from typing import Any, TypedDict

import numpy as np
from scipy import stats

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.decide import ALPHA
from normexp.claims.judge.noise import over_seeds
from normexp.claims.judge.over_settings import Pooled, pool
from normexp.claims.judge.settings_word import INCONCLUSIVE, SUPPORTED, VARIES, decide_over_settings, p_region
from normexp.claims.judge.shapes import Draw
from normexp.claims.judge.uncertain_mean import UncertainMean


class Arms(TypedDict):
    """The arms of a comparison."""

    arm: str
    baseline: str


ARMS: Arms = {"arm": "a", "baseline": "b"}
MARGIN = 0.5  # margin of equivalence, in spreads of a seed's effect
# (comparison, truth in spreads): here `supported` and `varies` are false.
QUESTIONS = [
    (Comparison(kind="different", **ARMS), 0.0),
    (Comparison(kind="greater", **ARMS), 0.0),
    (Comparison(kind="smaller", **ARMS), 0.0),
    (Comparison(kind="equivalent", margin=MARGIN, **ARMS), MARGIN),
    (Comparison(kind="equivalent", margin=MARGIN, **ARMS), -MARGIN),
]


def most_errors(trials: int, level: float = 0.05) -> int:
    """The most errors that a one-sided binomial test allows at a true rate of 5%: 4 of 40."""
    return int(stats.binom.isf(level, trials, 0.05))


def qualifies(share: float, trials: int) -> bool:
    """Whether this share of false words is consistent with at most 5%, by a test at 1%, as many shares are tested."""
    return round(share * trials) <= most_errors(trials, 0.01)


def cells_of(effects: np.ndarray) -> UncertainMean:
    """(..., settings, seeds) -> the mean of each setting."""
    return UncertainMean(effects.mean(-1), *over_seeds(effects))


def pooled_of(cells: UncertainMean) -> Pooled:
    """The mean over settings that share no examples and no runs."""
    effects = np.asarray(cells.effect)
    covariance = np.asarray(cells.variance)[..., None] * np.eye(effects.shape[-1])
    return pool(effects, covariance, np.asarray(cells.third))


def moved(cells: UncertainMean, truth: float) -> UncertainMean:
    """The same estimate around another true value."""
    return UncertainMean(cells.effect + truth, cells.variance, cells.df, cells.third)


def false_over_settings(
    draw: Draw, spread: float, settings: int, seeds: int, trials: int, *, floor: bool = True
) -> float:
    """The largest share of false words over all questions. `floor=False` drops the minimum of 60 pairs."""
    effects = draw(np.random.default_rng(settings * 1000 + seeds), (trials, settings, seeds)) / spread
    cells = cells_of(effects)
    worst = 0.0
    for comparison, truth in QUESTIONS:
        own = moved(cells, truth)
        pairs = settings * seeds if floor else 10**6
        words = decide_over_settings(comparison, pooled_of(own), own, pairs, ALPHA).word
        worst = max(worst, float(np.isin(words, [SUPPORTED, VARIES]).mean()))
    return worst


def false_in_one_setting(draw: Draw, spread: float, seeds: int, trials: int) -> float:
    """The same for one setting, judged alone by its interval."""
    own = cells_of(draw(np.random.default_rng(seeds), (trials, 1, seeds)) / spread)
    return max(
        float((p_region(moved(own, truth), comparison.supporting()) <= ALPHA).mean())
        for comparison, truth in QUESTIONS
    )


def false_with_weights(draw: Draw, spread: float, settings: int, seeds: int, trials: int) -> float:
    """How often Hartung and Knapp's interval with weights of 1 / variance excludes the truth. It is too often, so the
    judge does not use these weights."""
    cells = cells_of(draw(np.random.default_rng(settings * 1000 + seeds), (trials, settings, seeds)) / spread)
    effects, variance = np.asarray(cells.effect), np.maximum(cells.variance, 1e-6)
    low, high = np.zeros(trials), 4 * effects.var(-1, ddof=1) + 1e-9
    for _ in range(40):  # Paule and Mandel's between-variance by bisection
        middle = (low + high) / 2
        above = _weighted(effects, variance + middle[:, None])[2] > settings - 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    mean, total, q = _weighted(effects, variance + low[:, None])
    error = np.sqrt(np.maximum(q / (settings - 1), 1) / total)
    return float((np.abs(mean / error) > stats.t.ppf(1 - ALPHA / 2, settings - 1)).mean())


def _weighted(effects: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    weights = 1 / variance
    mean = (weights * effects).sum(-1) / weights.sum(-1)
    return mean, weights.sum(-1), (weights * (effects - mean[:, None]) ** 2).sum(-1)


def power(
    draw: Draw, spread: float, question: dict[str, Any], seeds: int, settings: int, trials: int
) -> float:
    """How often the right word is found.

    Args:
        question: `comparison`, `truth` (the mean effect), `noise` (spread of a seed's effect), `between` (deviation of
            the true effect from setting to setting).
    """
    generator = np.random.default_rng(settings * 1000 + seeds + 1)
    effects = question["noise"] * draw(generator, (trials, settings, seeds)) / spread
    effects = effects + question["truth"] + question["between"] * generator.normal(size=(trials, settings, 1))
    cells = cells_of(effects)
    words = decide_over_settings(
        question["comparison"], pooled_of(cells), cells, settings * seeds, ALPHA
    ).word
    return float((words == SUPPORTED).mean())


def false_with_looks(draw: Draw, spread: float, settings: int, looks: list[int], trials: int) -> float:
    """False words if seeds are added until the judge decides. Each look spends its share of alpha."""
    effects = draw(np.random.default_rng(settings), (trials, settings, looks[-1])) / spread
    comparison, _ = QUESTIONS[0]
    word = np.full(trials, INCONCLUSIVE, object)
    for seeds in looks:
        own = cells_of(effects[..., :seeds])
        found = decide_over_settings(
            comparison, pooled_of(own), own, settings * seeds, ALPHA / len(looks)
        ).word
        word = np.where(word == INCONCLUSIVE, found, word)
    return float(np.isin(word, [SUPPORTED, VARIES]).mean())
