"""The uncertainty of a mean over runs, by design: seeds alone, seeds crossed with test examples, splits cut again.

A bootstrap of five seeds gives four fifths of the variance and a normal quantile, so its 95% interval covers only 83%.
The functions here give the same variances without resampling. They are unbiased for any number of seeds and have the
degrees of freedom that Student's t needs. In the limit they equal the bootstraps, and tests compare the two.
"""

from typing import NamedTuple

import numpy as np


class Noise(NamedTuple):
    """Cumulants of the error of a mean, as arrays over the leading axes."""

    variance: np.ndarray
    df: np.ndarray
    third: np.ndarray


def over_seeds(z: np.ndarray) -> Noise:
    """Noise of the mean of `z` (..., seeds), one effect per seed: s^2 / n."""
    n = z.shape[-1]
    return Noise(_spread(z) / n, np.full(z.shape[:-1], n - 1.0), third_cumulant(z))


def cut_again(z: np.ndarray, test_to_train: float) -> Noise:
    """Noise of the mean over seeds, if each seed cuts its own training and test split from one pool.

    The splits overlap, so seeds are not independent: (1 / n + n_test / n_train) s^2 (Nadeau, Bengio 2003, the corrected
    resampled t). Many seeds do not make it vanish, and rightly so, because the pool is one sample.
    """
    alone = over_seeds(z)
    return alone._replace(variance=alone.variance + test_to_train * _spread(z))


def crossed(z: np.ndarray, resolution: np.ndarray | float = 0.0) -> Noise:
    """Noise of the mean of `z` (..., seeds, examples). Every seed had the same examples; both are samples.

    The crossed model has components for seed, example and rest. V_seed + V_example - V_rest is an unbiased estimate of
    the variance of the mean. V_seed is the variance of the seeds' means divided by n, V_example that of the examples'
    means divided by E, V_rest that of the residuals divided by n E (Searle 1971). A bootstrap that draws seeds and
    examples independently estimates the same (Owen 2007). Degrees of freedom are Satterthwaite's.

    Args:
        resolution: variance to add to the examples' part, because a test set cannot show finer differences.
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
    """s^2 over the last axis. Exactly 0 for equal values, even if their mean is rounded."""
    return np.where(np.ptp(z, axis=-1) == 0, 0.0, z.var(-1, ddof=1))


def without_rounding(effects: np.ndarray, scale: float) -> np.ndarray:
    """Round differences of values of about this size, so that values which differ only by rounding are equal."""
    step = 1e-9 * scale
    return np.round(effects / step) * step if step > 0 else effects


def third_cumulant(z: np.ndarray) -> np.ndarray:
    """Third cumulant of the mean over the last axis: the unbiased third cumulant of the values, divided by n^2."""
    n = z.shape[-1]
    centered = z - z.mean(-1, keepdims=True)
    return (centered**3).sum(-1) / ((n - 1) * (n - 2) * n)
