"""Holm's adjustment of several p values that belong together.

statsmodels has it too, where each call collects garbage for a tenth of a second; tests hold the two to one another.
"""

import numpy as np


def holm(p: np.ndarray | list[float]) -> np.ndarray:
    """The step-down adjustment along the last axis: the i-th smallest of k times k - i + 1, at most 1, never less."""
    p = np.asarray(p, float)
    k = p.shape[-1]
    order = np.argsort(p, axis=-1)
    steps = np.take_along_axis(p, order, -1) * (k - np.arange(k))
    adjusted = np.minimum(np.maximum.accumulate(steps, axis=-1), 1.0)
    return np.take_along_axis(adjusted, np.argsort(order, axis=-1), -1)
