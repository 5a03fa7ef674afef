"""How uncertain a mean over runs is, by design: seeds alone, seeds crossed with test examples, splits cut again.

A bootstrap of five seeds gives four fifths of the variance and a normal quantile, so that its interval covers 83%
where it promises 95%. These are the same variances without resampling, unbiased at any number of seeds, with the
degrees of freedom that Student's t needs; tests hold them to the bootstraps, which they equal in the limit.
"""

from typing import NamedTuple

import numpy as np


class Noise(NamedTuple):
    """Cumulants of a mean's error; arrays over the leading axes."""

    variance: np.ndarray
    df: np.ndarray
    third: np.ndarray


def over_seeds(z: np.ndarray) -> Noise:
    """Of the mean of `z` (..., seeds), one effect a seed: s^2 / n."""
    n = z.shape[-1]
    return Noise(_spread(z) / n, np.full(z.shape[:-1], n - 1.0), third_cumulant(z))


def cut_again(z: np.ndarray, test_to_train: float) -> Noise:
    """Of the mean over seeds each of which cuts its own training and test split from one pool.

    The splits overlap, so seeds are not independent: (1 / n + n_test / n_train) s^2 (Nadeau, Bengio 2003, the corrected
    resampled t). It does not vanish with many seeds, as it should not, because the pool is one sample.
    """
    alone = over_seeds(z)
    return alone._replace(variance=alone.variance + test_to_train * _spread(z))


def crossed(z: np.ndarray, resolution: np.ndarray | float = 0.0) -> Noise:
    """Of the mean of `z` (..., seeds, examples) where every seed met the same examples, both being samples.

    In the crossed model with components for seed, example and rest the variance of the mean is estimated without bias
    by V_seed + V_example - V_rest: the variance of the seeds' means over n, that of the examples' means over E and that
    of the residuals over n E (Searle 1971). A bootstrap that draws seeds and examples independently aims at the same
    (Owen 2007). Degrees of freedom are Satterthwaite's.

    Args:
        resolution: variance that the test set adds whatever was seen, to the examples' part.
    """
    n, examples = z.shape[-2:]
    seeds, means = z.mean(-1), z.mean(-2)  # (..., n), (..., E)
    rest = z - seeds[..., :, None] - means[..., None, :] + z.mean((-2, -1))[..., None, None]
    of_seeds = seeds.var(-1, ddof=1) / n
    of_examples = means.var(-1, ddof=1) / examples + resolution
    of_rest = (rest**2).sum((-2, -1)) / ((n - 1) * (examples - 1)) / (n * examples)
    variance = np.maximum(of_seeds + of_examples - of_rest, np.maximum(of_seeds, of_examples))
    spread = of_seeds**2 / (n - 1) + of_examples**2 / (examples - 1) + of_rest**2 / (n - 1) / (examples - 1)
    df = np.divide(variance**2, spread, out=np.full_like(variance, n - 1.0), where=spread > 0)
    return Noise(variance, np.maximum(df, n - 1.0), third_cumulant(seeds) + third_cumulant(means))


def _spread(z: np.ndarray) -> np.ndarray:
    """s^2 over the last axis; exactly 0 of equal values, whose mean may be rounded to another."""
    return np.where(np.ptp(z, axis=-1) == 0, 0.0, z.var(-1, ddof=1))


def without_rounding(effects: np.ndarray, scale: float) -> np.ndarray:
    """Differences of values of about this size, without their last digits: what rounding alone makes different is
    equal."""
    step = 1e-9 * scale
    return np.round(effects / step) * step if step > 0 else effects


def third_cumulant(z: np.ndarray) -> np.ndarray:
    """Of the mean over the last axis: the unbiased third cumulant of its values, over n^2."""
    n = z.shape[-1]
    centered = z - z.mean(-1, keepdims=True)
    return (centered**3).sum(-1) / ((n - 1) * (n - 2) * n)
