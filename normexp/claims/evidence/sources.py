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


class ComputedSource:
    """Makes networks at initialization anew, and remembers the settings that it gave."""

    def __init__(self, claim: Claim):
        self.claim = claim
        self.parts: dict[str, list[Setting]] = {}

    def __call__(self, part: str, cells: Cells) -> list[Setting]:
        from normexp.claims.evidence.initial import initial_setting  # loads torch

        check = self.claim.manipulation if part == MANIPULATION else None
        function = check.function if check else None
        self.parts[part] = [
            initial_setting(self.claim, name, own, self.claim.seed_range, function)
            for name, own in cells.items()
        ]
        return self.parts[part]

    def table(self) -> pd.DataFrame:
        """One row per part, setting, arm, level and seed."""
        return table_of(self.parts)


class StoredSource:
    """Reads settings of networks at initialization from a table of `ComputedSource`."""

    def __init__(self, claim: Claim, table: pd.DataFrame):
        self.claim, self.stored = claim, table

    def __call__(self, part: str, cells: Cells) -> list[Setting]:
        rows = self.stored[self.stored["part"] == part]
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
        """The given table."""
        return self.stored


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
