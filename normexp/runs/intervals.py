"""Student's t interval of a mean, for reports and for the judge."""

from typing import Any

import numpy as np


def t_quantile(level: float, df: Any) -> Any:
    """Half the width of a two-sided interval at `level`, in standard errors. Elementwise over degrees of freedom."""
    from scipy.special import stdtrit  # the same as t.ppf of scipy.stats, which takes a second to import

    return stdtrit(df, (1 + level) / 2)


def half_widths(std: Any, n: Any, level: float) -> Any:
    """Half the width of the t interval of a mean: t(n - 1) s / sqrt(n), elementwise; NaN for n < 2.

    `std` is the standard deviation with n - 1 in its denominator.
    """
    n = np.asarray(n, dtype=float)
    df = np.where(n > 1, n - 1, np.nan)
    return t_quantile(level, df) * np.asarray(std) / np.sqrt(np.where(n > 0, n, np.nan))
