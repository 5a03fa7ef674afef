"""Fabricated evidence with known truth."""

import numpy as np
import pandas as pd


def table_of(arms: dict[str, list], factors: list | None = None):
    """Evidence with values[arm] of shape (seeds,) or, with factors, (seeds, factors)."""
    rows = []
    for arm, values in arms.items():
        values = np.asarray(values, float)
        values = values[:, None] if values.ndim == 1 else values
        for seed, row in enumerate(values):
            for index, value in enumerate(row):
                level = (factors or [""])[index]
                rows.append((arm, level, seed, value))
    return pd.DataFrame(rows, columns=["arm", "factor", "seed", "value"])


def spread(mean: float, deviation: float, n: int = 8) -> list[float]:
    """n values with exactly this mean and sample deviation."""
    x = np.arange(n) - (n - 1) / 2
    return list(mean + deviation * x / x.std(ddof=1))
