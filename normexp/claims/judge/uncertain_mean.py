"""A mean and its uncertainty: an interval that allows for skewness, and the p at which it lies within bounds."""

from dataclasses import dataclass

import numpy as np
from scipy import special  # stdtr and stdtrit: Student's t without the overhead of scipy.stats

from normexp.runs.intervals import t_quantile


@dataclass(frozen=True, eq=False)
class UncertainMean:
    """An estimated mean with the first three cumulants of its error. Every field is a number or an array.

    The interval is Student's, and wider on one side if the data are skewed. With skewness s of the mean and quantile t,
    the end on the side of the long tail moves out by s (2 t^2 + 1) / 6 standard errors. This is the first term of the
    Cornish-Fisher expansion of Student's statistic (Johnson 1978, Hall 1992). The other end never moves in, because a
    few values do not show the skewness well enough to narrow anything.

    A variance of 0 means that the measure resolved nothing. Then the interval is infinite and p is 1.

    Attributes:
        effect: the mean.
        variance: of the mean, not of its parts.
        df: degrees of freedom of `variance`.
        third: third cumulant of the mean.
    """

    effect: np.ndarray | float
    variance: np.ndarray | float
    df: np.ndarray | float
    third: np.ndarray | float = 0.0

    @property
    def error(self) -> np.ndarray | float:
        return np.sqrt(self.variance)

    @property
    def skewness(self) -> np.ndarray | float:
        """Skewness of the mean; 0 if nothing varies."""
        known = np.asarray(self.variance) > 0
        return np.where(known, self.third / np.where(known, self.variance, 1.0) ** 1.5, 0.0)

    def interval(self, level: float) -> tuple:
        """Ends of the interval, each a number or an array."""
        t = t_quantile(level, self.df)
        term = self.skewness * (2 * t**2 + 1) / 6
        known = np.asarray(self.variance) > 0
        low = np.where(known, self.effect - self.error * (t + np.maximum(-term, 0)), -np.inf)
        high = np.where(known, self.effect + self.error * (t + np.maximum(term, 0)), np.inf)
        return (low, high) if low.ndim else (float(low), float(high))

    def p_within(self, low: float, high: float) -> np.ndarray | float:
        """The smallest alpha whose (1 - alpha) interval lies within (low, high); 1 if none does."""
        known = np.asarray(self.variance) > 0
        error = np.where(known, self.error, 1.0)
        t = np.minimum(
            _quantile((self.effect - low) / error, np.maximum(-self.skewness, 0)),
            _quantile((high - self.effect) / error, np.maximum(self.skewness, 0)),
        )
        p = np.where(known & (t > 0), 2 * special.stdtr(self.df, -np.maximum(t, 0)), 1.0)
        return p if p.ndim else float(p)


def _quantile(distance: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """The t with t + skewness (2 t^2 + 1) / 6 = distance."""
    rest = distance - skewness / 6
    with np.errstate(invalid="ignore"):  # if a bound is infinite
        root = np.sqrt(np.maximum(1 + 4 * skewness / 3 * rest, 0))
        return np.where(np.isposinf(distance), np.inf, 2 * rest / (1 + root))
