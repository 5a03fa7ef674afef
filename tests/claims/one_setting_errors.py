"""How often the judge errs within one setting, measured on numbers whose truth is known."""

import numpy as np
from scipy import stats

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.estimate import ALPHA, mean_of, p_region

LEVEL = 0.95
ACCURACIES = {"accuracy": 0.95, "accuracy99": 0.99}


def draw(shape: str, generator: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Paired effects with mean 0: normal, heavy-tailed (t with 3 degrees of freedom), or the difference of two
    accuracies near 95% or 99% on 360 test images, which is what training claims on digits compare."""
    if shape == "normal":
        return generator.normal(size=size)
    if shape == "t3":
        return generator.standard_t(3, size=size)
    if shape in ACCURACIES:
        a, b = (generator.binomial(360, ACCURACIES[shape], size) for _ in range(2))
        return (a - b) / 360
    raise ValueError(f"shape={shape}: choose from normal, t3, {', '.join(ACCURACIES)}")


def coverage(shape: str, seeds: int, method: str, trials: int = 2000) -> float:
    """How often the 95% interval over `seeds` effects holds their true mean 0."""
    effects = draw(shape, np.random.default_rng(0), (trials, seeds))
    if method == "t":
        ends = np.array([mean_of(row).interval(LEVEL) for row in effects])
    else:
        ends = np.array([bootstrap(row, method) for row in effects])
    return float(((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean())


def bootstrap(effects: np.ndarray, method: str) -> tuple[float, float]:
    found = stats.bootstrap(
        (effects,),
        np.mean,
        confidence_level=LEVEL,
        method=method,
        n_resamples=1000,
        rng=np.random.default_rng(0),
    )
    return found.confidence_interval


def claimed(shape: str, seeds: int, margin: float, shift: float = 0.0, trials: int = 2000) -> float:
    """How often two arms whose true difference is `shift` are judged to be different by more than `margin`, both in
    units of the effect's deviation. With a shift of 0 it is the error rate of an A/A comparison, else the power."""
    effects = draw(shape, np.random.default_rng(1), (trials, seeds))
    unit = draw(shape, np.random.default_rng(2), (100_000,)).std()
    comparison = Comparison(kind="different", arm="a", baseline="a again", margin=margin * unit)
    return float(np.mean([supported(comparison, row + shift * unit) for row in effects]))


def supported(comparison: Comparison, effects: np.ndarray, looks: int = 1) -> bool:
    return bool(p_region(mean_of(effects), comparison.supporting()) <= ALPHA / looks)


def claimed_with_looks(looks: list[int], trials: int = 2000) -> float:
    """The error rate of an A/A comparison that adds seeds until it decides: judged after each number in `looks`."""
    generator = np.random.default_rng(3)
    comparison = Comparison(kind="different", arm="a", baseline="a again")
    errors = 0
    for effects in generator.normal(size=(trials, looks[-1])):
        errors += any(supported(comparison, effects[:n], len(looks)) for n in looks)
    return errors / trials
