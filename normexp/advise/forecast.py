"""The finished settings of a bank, and a prediction from them of how norms compare in a setting that was not measured.

The logarithm of each norm's errors over those of the first norm is predicted by the median of the nearest measured
settings, or by ridge regression on the descriptors: whichever missed least where measured settings were left out. Many
neighbors, or a large penalty, predict the same for every setting. The intervals leave settings out: they are
those of the jackknife+ (Barber, Candes, Ramdas, Tibshirani 2021, arXiv:1905.02928).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from normexp.claims.evidence.grid import OF_BANK, grid_of_bank, runs_of
from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.evidence.settings import failed_runs
from normexp.claims.evidence.table import EVIDENCE, runs_in
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_count import number_in
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import EARLY, BankCell

LEVEL = 0.8  # of an interval
MOST = math.log(4)  # larger ratios count as fourfold: they come from runs that failed
PENALTIES = tuple(np.logspace(0, 4, 9))  # of ridge regression
NEIGHBORS = (4, 6, 8, 12, 16, 24, 36, 48)  # numbers of settings whose median predicts
FEWEST = 12  # settings for a prediction
NEAREST = 4  # settings that are shown as most alike
NUMBERS = ("updates", "batch size", "depth", "width", "examples")  # by their logarithms
WORDS = ("data", "model", "activation", "initialization", "optimizer", "place of the norm")


@dataclass(frozen=True, eq=False)
class Measured:
    """A finished setting at its final length, with the error on test of every norm."""

    name: str
    cell: BankCell
    setting: Setting

    @property
    def in_words(self) -> str:
        """The setting in a few words."""
        labels = self.cell.labels
        depth = f"{labels['depth']} deep" if "depth" in labels else ""
        batch_size = f"batch {labels['batch size']}" if "batch size" in labels else ""
        return ", ".join(filter(None, (labels["model"], depth, labels.get("activation"), batch_size)))


def measured(bank: Bank, evidence: Path = EVIDENCE) -> list[Measured]:
    """The settings of a bank's grid of which the evidence has every norm, in the order drawn."""
    table = runs_in(evidence)
    table = table[[f"{OF_BANK}{bank.name}" in words.split() for words in table["asked_by"]]]
    grid, cells = grid_of_bank(bank), bank.grid
    arms = grid[["setting", "arm", "level", "overrides"]].drop_duplicates()
    runs, points = runs_of(arms.merge(table[["overrides", "seed", "lr"]], on="overrides"), table), []
    for name in arms["setting"].unique():
        cell, here = cells[name], runs[runs["setting"] == name]
        if name.endswith(f"-{EARLY}") or here["arm"].nunique() < len(bank.norms):
            continue
        points.append(Measured(name, cell, _setting(cell, tuned_runs(here, "error"))))
    return points


def _setting(cell: BankCell, runs: pd.DataFrame) -> Setting:
    answers = runs["answers"].iloc[0]
    failed = failed_runs(runs, cell)
    table = runs.assign(factor="", value=1 - runs["test_accuracy"], failed=failed)
    return Setting.of_table(
        table, cell.name, measure="error", guess=1 - cell.chance,
        answer=1 / (cell.validation if math.isnan(answers) else answers), labels=cell.labels,
    )  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """The expected logarithm of a norm's errors over those of the first norm, with its interval."""

    norm: str
    effect: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{change(self.effect)} ({change(self.low)} to {change(self.high)})"


def change(effect: float) -> str:
    """A log ratio as a change of the errors: `-12%`, `x2.5`."""
    if effect > math.log(2):
        return f"x{math.exp(effect):.1f}"
    return f"{100 * math.expm1(effect):+.0f}%"


def effects_of(point: Measured, norms: Sequence[str]) -> list[float]:
    """The log ratio of each norm's errors to those of the first; 0 where both always failed."""
    first, *others = norms
    comparisons = [Comparison(kind="different", arm=norm, baseline=first, log=True) for norm in others]
    return [float(np.clip(number_in(point.setting, c).number or 0.0, -MOST, MOST)) for c in comparisons]


def descriptors(labels: Mapping[str, str]) -> dict[str, Any]:
    """The labels of a setting that predict: numbers as logarithms, and words."""
    numbers = {key: math.log(float(labels[key])) for key in NUMBERS if key in labels}
    return numbers | {key: labels[key] for key in WORDS if key in labels}


class Rule(NamedTuple):
    """A way to predict, with its number of neighbors or its penalty."""

    predict: Callable[..., np.ndarray]
    size: float


def nearest(x: np.ndarray | None, xs: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """(points, norms) median of the k nearest known settings; without x, of each known one from the others."""
    distances = cdist(xs if x is None else x, xs)
    if x is None:
        np.fill_diagonal(distances, np.inf)
    return np.median(y[np.argsort(distances, axis=1, kind="stable")[:, :k]], axis=1)


def ridge(x: np.ndarray | None, xs: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """(points, norms) prediction by ridge regression with an intercept; without x, of each known setting from the
    others, by the leverages."""
    mean = y.mean(0)  # the intercept, as the columns of xs have mean 0
    weights = np.linalg.solve(xs.T @ xs + penalty * np.eye(xs.shape[1]), xs.T)  # (columns, known)
    if x is not None:
        return mean + x @ weights @ (y - mean)
    leverage = (np.einsum("ij,ji->i", xs, weights) + 1 / len(y))[:, None]
    fitted = mean + xs @ weights @ (y - mean)
    return (fitted - leverage * y) / (1 - leverage)


class Forecast:
    """Predictions from the settings of a bank at their final length, at which networks have learned.

    Raises ValueError with one line for fewer than twelve settings.

    Attributes:
        x: (settings, columns) descriptors, a column a number or a word.
        y: (settings, norms but the first) log ratios of errors.
    """

    def __init__(self, settings: Sequence[Measured], norms: Sequence[str]):
        self.settings, self.norms = list(settings), tuple(norms)
        if len(self.settings) < FEWEST:
            raise ValueError(
                f"bank: {len(self.settings)} settings of it are finished, and a prediction needs {FEWEST}"
            )
        table = pd.get_dummies(pd.DataFrame([descriptors(point.cell.labels) for point in self.settings]))
        self._columns, self.x = table.columns, table.fillna(0.0).to_numpy(float)
        self.y = np.array([effects_of(point, norms) for point in self.settings])
        self._rules: dict[bytes, Rule] = {}  # by the settings that are known

    def _place(self, labels: Mapping[str, str]) -> np.ndarray:
        """The descriptors of a setting, (1, columns). Words that were not measured are ignored."""
        row = pd.get_dummies(pd.DataFrame([descriptors(labels)]))
        return row.reindex(columns=self._columns, fill_value=0.0).to_numpy(float)

    def expect(self, labels: Mapping[str, str]) -> list[Expected]:
        """What to expect of each norm but the first, the best one first."""
        middle, low, high = self._interval(self._place(labels), np.full(len(self.x), True))
        rows = zip(self.norms[1:], middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return sorted((Expected(*row) for row in rows), key=lambda expected: expected.effect)

    def _interval(self, x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(norms,) prediction at x (1, columns) from the known settings, lower and upper end of the jackknife+."""
        lows, highs = [], []
        for out in np.flatnonzero(mask):
            others = mask & (np.arange(len(mask)) != out)
            there, here = self._predict(np.stack([self.x[out], x[0]]), others)
            missed = np.abs(self.y[out] - there)
            lows.append(here - missed)
            highs.append(here + missed)
        below, above = np.sort(lows, 0), np.sort(highs, 0)
        place = min(math.ceil(LEVEL * (len(lows) + 1)), len(lows))
        return self._predict(x, mask)[0], below[len(lows) - place], above[place - 1]

    def _predict(self, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """(points, norms) from the known settings, by the rule that misses least of them where each is left out."""
        center, spread = self.x[mask].mean(0), self.x[mask].std(0)
        scaled, x = ((values - center) / np.where(spread > 0, spread, 1.0) for values in (self.x[mask], x))
        y = self.y[mask]
        key = mask.tobytes()
        if key not in self._rules:
            missed = {
                **{Rule(nearest, k): nearest(None, scaled, y, k) for k in NEIGHBORS if k < len(y)},
                **{Rule(ridge, penalty): ridge(None, scaled, y, penalty) for penalty in PENALTIES},
            }
            self._rules[key] = min(missed, key=lambda rule: np.abs(missed[rule] - y).mean())
        rule = self._rules[key]
        return rule.predict(x, scaled, y, rule.size)

    # Where the measured settings are.

    def nearest(self, labels: Mapping[str, str]) -> list[Measured]:
        """The measured settings that are most like this one."""
        variances = np.where(self.x.var(0) > 0, self.x.var(0), 1.0)
        distances = cdist(self._place(labels), self.x, "seuclidean", V=variances)[0]
        return [self.settings[index] for index in np.argsort(distances, kind="stable")[:NEAREST]]

    def outside(self, labels: Mapping[str, str]) -> list[str]:
        """The labels of a setting that lie outside of what was measured, on networks of its kind if there are any."""
        all_labels = [point.cell.labels for point in self.settings]
        alike = [row for row in all_labels if row["model"] == labels["model"]] or all_labels
        reasons = []
        for key in (key for key in (*WORDS, *NUMBERS) if key in labels and any(key in row for row in alike)):
            values = [row[key] for row in alike if key in row]
            if key in WORDS and labels[key] not in values:
                reasons.append(f"{key} {labels[key]} (measured: {', '.join(sorted(set(values)))})")
            elif key in NUMBERS:
                here, low, high = float(labels[key]), min(map(float, values)), max(map(float, values))
                if not low <= here <= high:
                    reasons.append(f"{key} {here:,g} (measured: {low:,g} to {high:,g})")
        return reasons
