"""Paired effects whose truth is known, in the shapes that training gives: what the judge is measured on."""

from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def stuck(share: float) -> Draw:
    """So many runs end with half their answers wrong, and no rule calls them failures. Where the others have 2% wrong,
    they lie 13 spreads off on the scale of log errors (log 25 over 0.25)."""

    def draw(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
        lost = generator.random(size) < share
        return np.where(lost, 13.0, generator.normal(size=size)) - 13.0 * share

    return draw


def tuned_equal_arms(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Two equal arms, each seed of which takes the best of four rates on validation: the difference on test."""
    of_rates = np.array([0.0, 0.05, 0.02, -0.3])
    validation, test = (of_rates + 0.1 * generator.normal(size=(2, *size, 4)) for _ in range(2))
    chosen = np.take_along_axis(test, validation.argmax(-1)[..., None], -1)[..., 0]
    return chosen[0] - chosen[1]


def one_image(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """One arm is always right, the other misses one image in a tenth of its runs; what a test set of one image is."""
    return (generator.random(size) < 0.1) - 0.1


def ties(generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Four of five pairs are equal, the others differ by one image."""
    return generator.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=size)


SHAPES: dict[str, Draw] = {  # each with mean 0
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

# Shapes of which a part of the runs fails, which is known: their estimand is the mean given that both trained.
FAILING = {"5% stuck at chance": 0.05, "10% stuck at chance": 0.10, "15% diverging": 0.15}


def spread_of(draw: Draw) -> float:
    """A scale for shapes with and without a variance: half the width of the middle 68% of many values, or their
    deviation where most of them are equal."""
    values = draw(np.random.default_rng(0), (200_000,))
    low, high = np.quantile(values, [0.16, 0.84])
    return float((high - low) / 2) or float(values.std())
