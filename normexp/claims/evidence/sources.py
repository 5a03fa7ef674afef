"""The settings of a claim for the judge: computed from runs and networks, or read from the table that was stored."""

from typing import Protocol

import pandas as pd

from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.bank import labels_of
from normexp.claims.spec.claim import Cells, Claim, split_options

MANIPULATION = "manipulation"


class Source(Protocol):
    """Gives the settings of a part of a claim: "" for the claim itself, or `MANIPULATION`."""

    def __call__(self, part: str, cells: Cells) -> list[Setting]: ...

    def table(self) -> pd.DataFrame: ...


class InitialSource:
    """The settings of networks at initialization, from the table that was stored; without one they are made anew."""

    def __init__(self, claim: Claim, table: pd.DataFrame | None = None):
        if table is None:
            from normexp.claims.evidence.initial import initial_settings  # loads torch

            parts = ["", MANIPULATION] if claim.manipulation else [""]
            table = table_of({part: initial_settings(claim, part == MANIPULATION) for part in parts})
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
        for (arm, level), own in setting.outcomes.items()
        for seed, value, failed in zip(own.seeds, own.values, own.failed, strict=True)
    )


def initial_labels(claim: Claim, overrides: list[str]) -> dict[str, str]:
    """The labels of a setting of initial networks, for the scope. A network without a data set sees noise."""
    if claim.drawn_from:
        return next(dict(cell.labels) for cell in claim.cells.values() if [*cell.overrides] == overrides)
    found = labels_of([*split_options(overrides)[0], *claim.fixed])
    noise = "random tokens" if found.get("model") == "GPT" else "Gaussian noise"
    return {"data": noise} | found
