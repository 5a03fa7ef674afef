"""Paired effects whose truth is known, in shapes that occur in training. The judge's errors are measured on them."""

from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


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


def one_image(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """One arm is always right; the other misses one image in a tenth of its runs, as with a test set of one image."""
    return (generator.random(size) < 0.1) - 0.1


def ties(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Four of five pairs are equal; the others differ by one image."""
    return generator.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=size)


# All have mean 0.
SHAPES: dict[str, Draw] = {
    "normal": lambda generator, size: generator.normal(size=size),
    "t, 2 degrees of freedom": lambda generator, size: generator.standard_t(2, size=size),
    "exponential": lambda generator, size: generator.exponential(size=size) - 1,
    "lognormal(1)": lambda generator, size: generator.lognormal(size=size) - np.exp(0.5),
    "one-image skew": one_image,
    "5% stuck halfway": stuck(0.05),
    "10% stuck halfway": stuck(0.10),
    "ties": ties,
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
