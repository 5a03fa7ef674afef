"""Predict how norms compare in a setting that was not measured, with intervals that leave settings out.

Ridge regression on the setting's descriptors predicts the logarithm of each norm's errors over those of the first norm.
Its penalty is chosen by leaving one out, and a large one predicts the same for every setting. The intervals are those
of the jackknife+ (Barber, Candes, Ramdas, Tibshirani 2021, arXiv:1905.02928), which leaves out whole settings.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from normexp.claims.evidence.measured import Measured
from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.settings_count import number_in
from normexp.claims.spec.bank import FINAL

LEVEL = 0.8  # of an interval
MOST = math.log(4)  # larger ratios count as fourfold: they come from runs that failed
PENALTIES = np.logspace(0, 4, 9)
FEWEST = 12  # settings for a prediction
NEAREST = 4
NUMBERS = ("updates", "batch size", "depth", "width", "examples")  # by their logarithms
WORDS = ("data", "model", "activation", "initialization", "optimizer", "place of the norm")


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


def effects_of(own: Measured, norms: Sequence[str]) -> list[float]:
    """The log ratio of each norm's errors to those of the first; 0 where both always failed."""
    first, *others = norms
    rows = [
        number_in(own.setting, Comparison(kind="different", arm=norm, baseline=first, log=True))
        for norm in others
    ]
    return [float(np.clip(row.number or 0.0, -MOST, MOST)) for row in rows]


def descriptors(labels: Mapping[str, str]) -> dict[str, Any]:
    """What of a setting predicts: numbers as logarithms, and words."""
    numbers = {key: math.log(float(labels[key])) for key in NUMBERS if key in labels}
    return numbers | {key: labels[key] for key in WORDS if key in labels}


class Forecast:
    """Predictions from the settings of a bank, some of them at two lengths.

    Raises ValueError with one line for fewer than twelve settings.
    """

    def __init__(self, settings: Sequence[Measured], norms: Sequence[str]):
        self.settings, self.norms = list(settings), tuple(norms)
        self.groups = np.array([own.name for own in settings])
        self.names = list(dict.fromkeys(self.groups.tolist()))
        if len(self.names) < FEWEST:
            raise ValueError(
                f"bank: {len(self.names)} settings of it are finished, and a prediction needs {FEWEST}; train more: "
                "normexp evidence grid"
            )
        from sklearn.feature_extraction import DictVectorizer  # takes a second to import

        # a column a number, one a word; words not measured are ignored
        self._columns = DictVectorizer(sparse=False)
        self.x = self._columns.fit_transform([descriptors(own.cell.labels) for own in settings])
        self.y = np.array([effects_of(own, norms) for own in settings])
        self._models: dict[frozenset[str], Any] = {}  # by the settings that they leave out

    def expect(self, labels: Mapping[str, str]) -> list[Expected]:
        """What to expect of each norm but the first, the best one first."""
        middle, low, high = self._interval(self._columns.transform([descriptors(labels)]))
        rows = zip(self.norms[1:], middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return sorted((Expected(*row) for row in rows), key=lambda own: own.effect)

    def _interval(self, x: np.ndarray, without: str = "") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(norms,) prediction at x (1, columns), lower and upper end of the jackknife+, from settings but `without`."""
        lows, highs = [], []
        for name in self.names:
            if name == without:
                continue
            model, out = self._fitted(without, name), self.groups == name
            missed, here = np.abs(self.y[out] - model.predict(self.x[out])), model.predict(x)
            lows.append(here - missed)
            highs.append(here + missed)
        below, above = np.sort(np.concatenate(lows), 0), np.sort(np.concatenate(highs), 0)
        n = len(below)
        place = min(math.ceil(LEVEL * (n + 1)), n)
        return self._fitted(without).predict(x)[0], below[n - place], above[place - 1]

    def _fitted(self, *without: str) -> Any:
        """The model from all settings but these."""
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        key = frozenset(without) - {""}
        if key not in self._models:
            known = ~np.isin(self.groups, list(key))
            model = make_pipeline(StandardScaler(), RidgeCV(PENALTIES, alpha_per_target=True))
            self._models[key] = model.fit(self.x[known], self.y[known])
        return self._models[key]

    # How well it does on settings that it has not seen.

    @cached_property
    def left_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(settings, norms) prediction, lower and upper end for each setting, at its final length, from all others."""
        rows = [
            self._interval(self.x[place : place + 1], own.name)
            for place, own in enumerate(self.settings)
            if own.at == FINAL
        ]
        middle, low, high = (np.array(part) for part in zip(*rows, strict=True))
        return middle, low, high

    def coverage(self) -> list[dict[str, Any]]:
        """For each norm but the first: in how many settings the interval held the measured ratio, the width of the
        interval, the mean absolute miss of the prediction and of the median of the other settings, and how often the
        sign was right where the interval excludes 0."""
        truth = self.y[[own.at == FINAL for own in self.settings]]
        middle, low, high = self.left_out
        others = np.array([np.median(np.delete(truth, place, 0), 0) for place in range(len(truth))])
        held, sure = (low <= truth) & (truth <= high), (low > 0) | (high < 0)
        right = sure & (np.sign(middle) == np.sign(truth))
        return [
            {
                "norm": norm,
                "n": len(truth),
                "held": int(held[:, place].sum()),
                "width": float(np.median(high[:, place] - low[:, place])),
                "missed": float(np.abs(middle - truth)[:, place].mean()),
                "missed_by_the_median": float(np.abs(others - truth)[:, place].mean()),
                "sure": int(sure[:, place].sum()),
                "right": int(right[:, place].sum()),
            }
            for place, norm in enumerate(self.norms[1:])
        ]

    # Where the measured settings are.

    def nearest(self, labels: Mapping[str, str]) -> list[Measured]:
        """The measured settings that are most like this one, at their final length."""
        scaled = self._fitted()[0]
        places = [place for place, own in enumerate(self.settings) if own.at == FINAL]
        here = scaled.transform(self._columns.transform([descriptors(labels)]))
        far = np.linalg.norm(scaled.transform(self.x[places]) - here, axis=1)
        return [self.settings[places[one]] for one in np.argsort(far, kind="stable")[:NEAREST]]

    def outside(self, labels: Mapping[str, str]) -> list[str]:
        """What of a setting lies outside of what was measured: of networks of its kind, if there are any."""
        known = [own.cell.labels for own in self.settings]
        own = [one for one in known if one["model"] == labels["model"]] or known
        found = []
        for key in WORDS:
            values = sorted({one[key] for one in own if key in one})
            if key in labels and values and labels[key] not in values:
                found.append(f"{key} {labels[key]} (measured: {', '.join(values)})")
        for key in NUMBERS:
            numbers = [float(one[key]) for one in own if key in one]
            if key in labels and numbers and not min(numbers) <= float(labels[key]) <= max(numbers):
                span = f"{min(numbers):,g} to {max(numbers):,g}"
                found.append(f"{key} {float(labels[key]):,g} (measured: {span})")
        return found
