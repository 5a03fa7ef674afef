"""Comparisons whose truth is known, and how often the judge errs on them or finds an effect, for `calibrate.py`.

A word is false if it contradicts the true mean. Every shape is tested with the questions where errors are likeliest:
the truth is exactly the margin, on either side, for greater, smaller and equivalent, and 0 for different.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, UncertainMean, p_region
from normexp.claims.judge.outcomes import Arm, Outcomes, Setting, blocks
from normexp.claims.judge.random_effects import (
    INCONCLUSIVE,
    SUPPORTED,
    VARIES,
    Pooled,
    decide_over_settings,
    pool,
)
from normexp.claims.judge.setting_effect import effect_in, over_seeds

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
ARMS: dict[str, Any] = {"arm": "a", "baseline": "b"}
DIFFERENT = Comparison(kind="different", log=True, **ARMS)
MARGIN = 0.5  # margin of equivalence, in standard deviations of a seed's effect
# (comparison, true effect in SDs); the words `supported` and `varies` are errors.
QUESTIONS = [
    (Comparison(kind="different", **ARMS), 0.0),
    (Comparison(kind="greater", **ARMS), 0.0),
    (Comparison(kind="smaller", **ARMS), 0.0),
    (Comparison(kind="equivalent", margin=MARGIN, **ARMS), MARGIN),
    (Comparison(kind="equivalent", margin=MARGIN, **ARMS), -MARGIN),
]
QUARTER = -math.log(0.75)
# An effect of practical size (a quarter fewer errors), and no effect: (comparison, true mean). Seeds differ by a
# quarter, settings by a tenth.
PRACTICAL = {
    "greater": (Comparison(kind="greater", margin=0.05, **ARMS), QUARTER),
    "equivalent": (Comparison(kind="equivalent", margin=QUARTER, **ARMS), 0.0),
}
SEEDS = 5


# Paired effects of seeds, all with mean 0, in shapes that occur in training.
def stuck(share: float) -> Draw:
    """This share of runs ends with half the answers wrong, and no rule calls them failures. If the other runs have 2%
    wrong, these lie 13 spreads away on the scale of log errors (log 25 / 0.25)."""

    def draw(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        lost = generator.random(size) < share
        return np.where(lost, 13.0, generator.normal(size=size)) - 13.0 * share

    return draw


def tuned_equal_arms(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Difference on test of two equal arms, if each seed takes the best of four rates on validation."""
    of_rates = np.array([0.0, 0.05, 0.02, -0.3])
    validation, test = (of_rates + 0.1 * generator.normal(size=(2, *size, 4)) for _ in range(2))
    chosen = np.take_along_axis(test, validation.argmax(-1)[..., None], -1)[..., 0]
    return chosen[0] - chosen[1]


SHAPES: dict[str, Draw] = {
    "normal": lambda generator, size: generator.normal(size=size),
    "t, 2 degrees of freedom": lambda generator, size: generator.standard_t(2, size=size),
    "exponential": lambda generator, size: generator.exponential(size=size) - 1,
    "lognormal(1)": lambda generator, size: generator.lognormal(size=size) - np.exp(0.5),
    # One arm is always right; the other misses one image in a tenth of its runs.
    "one-image skew": lambda generator, size: (generator.random(size) < 0.1) - 0.1,
    "5% stuck halfway": stuck(0.05),
    "10% stuck halfway": stuck(0.10),
    # Four of five pairs are equal; the others differ by one image.
    "ties": lambda generator, size: generator.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=size),
    "tuned equal arms": tuned_equal_arms,
}
# Shapes in which a known part of the runs fails. What is estimated is the mean given that both trained.
FAILING = {"5% stuck at chance": 0.05, "10% stuck at chance": 0.10, "15% diverging": 0.15}


def spread_of(draw: Draw) -> float:
    """A scale that shapes without a variance have too: half the width of the middle 68% of many values, or their
    deviation if most of them are equal."""
    values = draw(np.random.default_rng(0), (200_000,))
    low, high = np.quantile(values, [0.16, 0.84])
    return float((high - low) / 2) or float(values.std())


def cells_of(effects: np.ndarray, truth: float = 0.0) -> UncertainMean:
    """(..., settings, seeds) -> the mean of each setting, moved to a true value."""
    return UncertainMean(effects.mean(-1) + truth, *over_seeds(effects))


def pooled_of(cells: UncertainMean) -> Pooled:
    """The mean over settings that share no examples and no runs."""
    effects = np.asarray(cells.effect)
    covariance = np.asarray(cells.variance)[..., None] * np.eye(effects.shape[-1])
    return pool(effects, covariance, np.asarray(cells.third))


def words_of(comparison: Comparison, cells: UncertainMean, pairs: int, alpha: float = ALPHA) -> np.ndarray:
    return decide_over_settings(comparison, pooled_of(cells), cells, pairs, alpha).word


def false_over_settings(
    draw: Draw, spread: float, settings: int, seeds: int, trials: int, *, floor: bool = True
) -> float:
    """The largest share of false words over all questions. `floor=False` drops the minimum of 60 pairs."""
    effects = draw(np.random.default_rng(settings * 1000 + seeds), (trials, settings, seeds)) / spread
    pairs = settings * seeds if floor else 10**6
    words = [words_of(comparison, cells_of(effects, truth), pairs) for comparison, truth in QUESTIONS]
    return float(np.isin(words, [SUPPORTED, VARIES]).mean(1).max())


def false_in_one_setting(draw: Draw, spread: float, seeds: int, trials: int) -> float:
    """The same for one setting, judged alone by its interval."""
    effects = draw(np.random.default_rng(seeds), (trials, 1, seeds)) / spread
    return max(
        float((p_region(cells_of(effects, truth), comparison.supporting()) <= ALPHA).mean())
        for comparison, truth in QUESTIONS
    )


def false_with_weights(draw: Draw, spread: float, settings: int, seeds: int, trials: int) -> float:
    """How often Hartung and Knapp's interval with weights of 1 / variance excludes the truth. It is too often, so the
    judge does not use these weights."""
    cells = cells_of(draw(np.random.default_rng(settings * 1000 + seeds), (trials, settings, seeds)) / spread)
    effects, variance = np.asarray(cells.effect), np.maximum(cells.variance, 1e-6)

    def weighted(between: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weights = 1 / (variance + between[:, None])
        mean = (weights * effects).sum(-1) / weights.sum(-1)
        return mean, weights.sum(-1), (weights * (effects - mean[:, None]) ** 2).sum(-1)

    low, high = np.zeros(trials), 4 * effects.var(-1, ddof=1) + 1e-9
    for _ in range(40):  # Paule and Mandel's between-variance by bisection
        middle = (low + high) / 2
        above = weighted(middle)[2] > settings - 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    mean, total, q = weighted(low)
    error = np.sqrt(np.maximum(q / (settings - 1), 1) / total)
    return float((np.abs(mean / error) > stats.t.ppf(1 - ALPHA / 2, settings - 1)).mean())


def false_with_looks(draw: Draw, spread: float, settings: int, looks: list[int], trials: int) -> float:
    """False words if seeds are added until the judge decides. Each look spends its share of alpha."""
    effects = draw(np.random.default_rng(settings), (trials, settings, looks[-1])) / spread
    word = np.full(trials, INCONCLUSIVE, object)
    for seeds in looks:
        found = words_of(
            QUESTIONS[0][0], cells_of(effects[..., :seeds]), settings * seeds, ALPHA / len(looks)
        )
        word = np.where(word == INCONCLUSIVE, found, word)
    return float(np.isin(word, [SUPPORTED, VARIES]).mean())


def power(draw: Draw, spread: float, question: str, seeds: int, settings: int, trials: int) -> float:
    """How often the right word is found for a question of practical size."""
    comparison, truth = PRACTICAL[question]
    generator = np.random.default_rng(settings * 1000 + seeds + 1)
    effects = 0.25 * draw(generator, (trials, settings, seeds)) / spread
    effects = effects + truth + 0.1 * generator.normal(size=(trials, settings, 1))
    return float((words_of(comparison, cells_of(effects), settings * seeds) == SUPPORTED).mean())


# Equal arms whose test set is a sample. The truth is the mean over all possible seeds and examples.
def fixed_test_set(generator: np.random.Generator, examples: int = 360, error: float = 0.05) -> Setting:
    """Two arms with an error of 5%. For each arm, other images are hard for all its runs."""
    arms: dict[Arm, Outcomes] = {}
    for arm in "ab":
        chance = np.minimum(error * generator.gamma(0.2, 5.0, size=examples), 1.0)
        arms[arm, ""] = Outcomes.of_examples(range(SEEDS), generator.random((SEEDS, examples)) < chance)
    return Setting("fixed", arms, "test set", True)


def text(generator: np.random.Generator, windows: int = 2000, alike: int = 20) -> Setting:
    """Losses of two arms on a text with topics of 20 windows. Each topic suits one of the arms."""
    topic = np.repeat(generator.normal(size=windows // alike), alike)
    arms: dict[Arm, Outcomes] = {}
    for arm, sign in (("a", 1), ("b", -1)):
        losses = 2.0 + 0.1 * sign * topic + 0.2 * generator.normal(size=(SEEDS, windows))
        arms[arm, ""] = Outcomes.of_examples(range(SEEDS), blocks(losses, 2 * alike))
    return Setting("text", arms, "test set")


def splits_cut_again(generator: np.random.Generator, pool: int = 200, train: int = 128) -> Setting:
    """Two linear regressions, each on one of two equally informative features. Every seed cuts the pool anew.

    In a given pool, one feature happens to be more informative in every split. Seeds alone cannot show this.
    """
    x = generator.normal(size=(2, pool))  # (features, pool)
    y = x.sum(0) + generator.normal(size=pool)
    losses = np.empty((2, SEEDS, pool - train))
    for seed in range(SEEDS):
        rows = generator.permutation(pool)
        fit, test = rows[:train], rows[train:]
        slopes = (x[:, fit] * y[fit]).sum(1) / (x[:, fit] ** 2).sum(1)
        losses[:, seed] = (y[test] - slopes[:, None] * x[:, test]) ** 2
    arms: dict[Arm, Outcomes] = {
        (arm, ""): Outcomes.of_examples(range(SEEDS), own) for arm, own in zip("ab", losses, strict=True)
    }
    return Setting("cut", arms, "cut again", test_to_train=(pool - train) / train)


DESIGNS: dict[str, Callable[[np.random.Generator], Setting]] = {
    "test set of 360 images": fixed_test_set,
    "text in blocks": text,
    "splits cut again": splits_cut_again,
}


def called_different(make: Callable[[np.random.Generator], Setting], trials: int) -> list[float]:
    """How often equal arms are called different: by an interval over seeds alone, and by the judge's interval."""
    generator, called = np.random.default_rng(0), np.zeros(2)
    for _ in range(trials):
        setting = make(generator)
        for place, own in enumerate((dataclasses.replace(setting, design="seeds"), setting)):
            called[place] += p_region(effect_in(own, DIFFERENT).known_mean, DIFFERENT.supporting()) <= ALPHA
    return (called / trials).tolist()


def failing_family(
    generator: np.random.Generator, share: float, settings: int = 8, seeds: int = 10
) -> list[Setting]:
    """Settings in which runs of arm a fail by chance and those of b never. If both trained, the arms are equal."""
    found = []
    for number in range(settings):
        arms: dict[Arm, Outcomes] = {}
        for arm in "ab":
            failed = generator.random(seeds) < (share if arm == "a" else 0.0)
            values = np.exp(0.2 * generator.normal(size=seeds) - 3)
            arms[arm, ""] = Outcomes(np.arange(seeds), values, failed)
        found.append(Setting(str(number), arms, guess=0.9))
    return found
