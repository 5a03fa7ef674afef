"""Fabricated evidence with known truth."""

import numpy as np
import pandas as pd


def table_of(arms: dict[str, list], factors: list | None = None, censored: dict[str, list] | None = None):
    """Evidence with values[arm] of shape (seeds,) or, with factors, (seeds, factors)."""
    rows = []
    for arm, values in arms.items():
        values = np.asarray(values, float)
        values = values[:, None] if values.ndim == 1 else values
        flags = np.asarray((censored or {}).get(arm, np.zeros(values.shape, bool))).reshape(values.shape)
        for seed, row in enumerate(values):
            for index, value in enumerate(row):
                level = (factors or [""])[index]
                rows.append((arm, level, seed, value, flags[seed, index]))
    return pd.DataFrame(rows, columns=["arm", "factor", "seed", "value", "censored"])


def spread(mean: float, deviation: float, n: int = 8) -> list[float]:
    """n values with exactly this mean and sample deviation."""
    x = np.arange(n) - (n - 1) / 2
    return list(mean + deviation * x / x.std(ddof=1))
