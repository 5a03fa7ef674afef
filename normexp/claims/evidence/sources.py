"""Sources of a claim's settings: gather them again, or read the table that was kept."""

from pathlib import Path
from typing import Protocol

import pandas as pd

from normexp.claims.evidence.settings_evidence import (
    as_table,
    gather_settings,
    initial_labels,
    setting_of_table,
)
from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.settings import Cells

MANIPULATION = "manipulation"


class Source(Protocol):
    """Gives the settings of a part of a claim: "" for the claim itself, the name of a contrast's group, or
    `MANIPULATION`."""

    def __call__(
        self, part: str, cells: Cells, seeds: range, function: str | None = None
    ) -> list[Setting]: ...

    def table(self) -> pd.DataFrame: ...


class Anew:
    """Makes networks at initialization, or reads the bank's ledger, and remembers the settings that it gave."""

    def __init__(self, claim: Claim, root: Path):
        self.claim, self.root = claim, root
        self.parts: dict[str, list[Setting]] = {}

    def __call__(self, part: str, cells: Cells, seeds: range, function: str | None = None) -> list[Setting]:
        self.parts[part] = gather_settings(
            self.claim, cells, seeds, function, self.root, check=part == MANIPULATION
        )
        return self.parts[part]

    def table(self) -> pd.DataFrame:
        """One row per part, setting, arm, level and seed."""
        return pd.concat(
            [as_table(settings).assign(part=part) for part, settings in self.parts.items()], ignore_index=True
        )


class FromTable:
    """Reads settings of networks at initialization from a table of `Anew`."""

    def __init__(self, claim: Claim, table: pd.DataFrame):
        self.claim, self.kept = claim, table

    def __call__(self, part: str, cells: Cells, seeds: range, function: str | None = None) -> list[Setting]:
        rows = self.kept[(self.kept["part"] == part) & self.kept["seed"].isin(list(seeds))]
        by_setting = dict(iter(rows.groupby("setting", sort=False)))
        if missing := [name for name in cells if name not in by_setting]:
            raise ValueError(
                f"claim={self.claim.id}: setting={missing[0]}: is not in the kept table; verify it anew"
            )
        return [
            setting_of_table(name, by_setting[name], initial_labels(self.claim, overrides))
            for name, overrides in cells.items()
        ]

    def table(self) -> pd.DataFrame:
        """The given table."""
        return self.kept
