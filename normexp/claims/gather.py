"""What there is of a claim: the kept evidence first, then the runs of this disk. Nothing here trains."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from normexp.claims.evidence.grid import NO_GRID, RUN, grid_of, missing
from normexp.claims.evidence.table import kept_grid, read, runs_in, values_of
from normexp.claims.evidence.widen import widen
from normexp.claims.spec.claim import Claim
from normexp.config.errors import status_of, why
from normexp.format import pluralize

if TYPE_CHECKING:
    from normexp.claims.evidence.disk import DiskRuns

Failed = dict[str, tuple[str, int]]  # claim -> why it has no verdict, and the exit status


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of a claim, as far as there is some."""

    claim: Claim
    table: pd.DataFrame  # finished runs; of a claim that trains nothing its values
    # Of the runs that it asks for; no row where it trains nothing.
    grid: pd.DataFrame = field(default_factory=NO_GRID.copy)

    @property
    def missing(self) -> pd.DataFrame:
        """The rows of the grid that no run has yet."""
        return missing(self.grid, self.table)

    @property
    def is_whole(self) -> bool:
        """Whether every setting is there, and no run is missing."""
        return set(self.claim.cells) <= set(self.grid["setting"]) and self.missing.empty


def kept(claim: Claim, folder: Path) -> Evidence | None:
    """What a folder of evidence has of a claim; None if it has nothing. The kept grid of runs has the wider rates and
    the more seeds that `widen` once asked for."""
    if claim.evidence == "training":
        grid = kept_grid(claim, runs_in(folder))
        return None if grid.empty else Evidence(claim, read(folder, grid, claim), grid)
    values = values_of(folder, claim)
    return None if values is None else Evidence(claim, values)


def gathered(
    claim: Claim, folder: Path | None, disk: "DiskRuns", grid: pd.DataFrame | None = None
) -> Evidence:
    """The finished runs of a folder of evidence and of this disk, with the grid as wide as they ask. `grid`: as wide as
    it was before."""
    grid = grid_of(claim) if grid is None else grid
    while True:
        table = read(folder, grid, claim)
        if len(todo := missing(grid, table)):
            table = read(folder, grid, claim, disk.read(todo))
        wider = widen(claim, grid, table)
        if len(wider) == len(grid):
            return Evidence(claim, table, grid)
        grid = wider


@contextlib.contextmanager
def noted(failed: Failed, name: str) -> Iterator[None]:
    """An error of one claim becomes its reason in `failed`, and the others go on."""
    try:
        yield
    except Exception as error:
        failed[name] = why(error), status_of(error)


def count_runs(rows: pd.DataFrame) -> int:
    """The runs of these rows of a grid; arms may share one."""
    return len(rows.drop_duplicates(RUN))


def to_train(evidence: Evidence) -> str:
    """How many runs of a claim are to train, in words."""
    missing_runs, runs = count_runs(evidence.missing), count_runs(evidence.grid)
    return f"{evidence.claim.id}: {missing_runs} of {pluralize(runs, 'run')} to train"
