"""The settings of a claim for the judge: computed from runs and networks, or read from the table that was stored."""

from typing import Protocol

import numpy as np
import pandas as pd

from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.bank import labels_of
from normexp.claims.spec.claim import Cells, Claim, split_options

MANIPULATION = "manipulation"
NETWORK = "network"  # the part by which networks are told apart
SAME = 1e-4  # the largest relative difference of equal networks: sums are rounded in another order
DIRECTIONS = "depth.direction"
DIFFERENT = {  # of drawn networks before training; a registered protocol holds it
    "passed over": "a draw that has in every arm and seed the values and directions of an earlier one",
    "directions": DIRECTIONS,
    "within": SAME,
}


class Source(Protocol):
    """Gives the settings of a part of a claim: "" for the claim itself, `MANIPULATION`, or `NETWORK`."""

    def __call__(self, part: str, cells: Cells) -> list[Setting]: ...

    def table(self) -> pd.DataFrame: ...


class InitialSource:
    """The settings of networks at initialization, from the table that was stored; without one they are made anew."""

    def __init__(self, claim: Claim, table: pd.DataFrame | None = None):
        if table is None:
            from normexp.claims.evidence.initial import initial_settings  # loads torch

            functions = {"": claim.function}
            if claim.manipulation:
                functions[MANIPULATION] = claim.manipulation.function
            if claim.drawn:
                functions[NETWORK] = DIRECTIONS
            table = table_of(
                {part: initial_settings(claim, function) for part, function in functions.items()}
            )
        self.claim, self._table = claim, table

    def __call__(self, part: str, cells: Cells) -> list[Setting]:
        rows = self._table[self._table["part"] == part]
        rows = rows[rows["seed"].isin(list(self.claim.seed_range))]
        by_setting = dict(iter(rows.groupby("setting", sort=False)))
        if missing := [name for name in cells if name not in by_setting]:
            raise ValueError(
                f"claim={self.claim.id}: setting={missing[0]}: is not in the stored table; verify it anew"
            )
        return [
            Setting.of_table(by_setting[name], name, labels=initial_labels(self.claim, overrides))
            for name, overrides in cells.items()
        ]

    def table(self) -> pd.DataFrame:
        """One row per part, setting, arm, level and seed."""
        return self._table


def different(source: Source, cells: Cells) -> list[Setting]:
    """The settings without those that are the same network as an earlier one: drawn twice, or apart only in what the
    claim's arms fix or do not use, or in a scale of the weights that a norm removes. Equal values alone, of a measure
    at the end of its range, do not make networks equal."""
    distinct: list[Setting] = []
    seen: list[np.ndarray] = []
    for setting, network in zip(source("", cells), source(NETWORK, cells), strict=True):
        values = [outcomes.values for part in (setting, network) for outcomes in part.outcomes.values()]
        numbers = np.concatenate(values)
        if not any(np.allclose(numbers, other, rtol=SAME, equal_nan=True) for other in seen):
            distinct.append(setting)
            seen.append(numbers)
    return distinct


def table_of(parts: dict[str, list[Setting]]) -> pd.DataFrame:
    """One row per part, setting, arm, level and seed."""
    return pd.DataFrame(
        {
            "setting": setting.name,
            "arm": arm,
            "factor": level,
            "seed": seed,
            "value": value,
            "failed": bool(failed),
            "part": part,
        }
        for part, settings in parts.items()
        for setting in settings
        for (arm, level), outcomes in setting.outcomes.items()
        for seed, value, failed in zip(outcomes.seeds, outcomes.values, outcomes.failed, strict=True)
    )


def initial_labels(claim: Claim, overrides: list[str]) -> dict[str, str]:
    """The labels of a setting of initial networks, for the scope. A network without a data set sees noise."""
    if claim.drawn_from:
        return next(dict(cell.labels) for cell in claim.cells.values() if [*cell.overrides] == overrides)
    labels = labels_of([*split_options(overrides)[0], *claim.fixed])
    noise = "random tokens" if labels.get("model") == "GPT" else "Gaussian noise"
    return {"data": noise} | labels
