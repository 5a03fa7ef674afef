"""Select the runs of a grid: every cell must hold exactly one run."""

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from normexp.runs.columns import varying

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5  # a message names so many cells and counts the others


def select_grid(summaries: "pd.DataFrame", grid: Mapping[str, Iterable[Any]]) -> "pd.DataFrame":
    """The rows of a grid such as `{"norm": ["batchnorm", "none"], "batch_size": [2, 8], "seed": range(5)}`. Cells are
    the product of its columns, in that order.

    Raises ValueError for a column that the table lacks, for cells without a run (it names them), and for a cell with
    several runs (it names the columns in which they differ).
    """
    names = list(grid)
    for name in names:
        if name not in summaries:
            raise ValueError(
                f"grid: {name} is no column of the table; the columns are {', '.join(summaries.columns)}"
            )
    found = dict(iter(summaries.groupby(names, dropna=False)))
    cells = list(itertools.product(*grid.values()))
    missing = [cell for cell in cells if cell not in found]
    if missing:
        raise ValueError(
            f"grid: {len(missing)} of {len(cells)} cells have no finished run: {_listed(names, missing)}; "
            "start the same sweep again, it runs only what is missing"
        )
    for cell in cells:
        if len(found[cell]) > 1:
            differing = [name for name in varying(found[cell]) if name not in names]
            raise ValueError(
                f"grid: cell {_cell(names, cell)} holds {len(found[cell])} runs, which differ in "
                f"{', '.join(differing)}; add these columns to the grid"
            )
    return summaries.loc[[found[cell].index[0] for cell in cells]].reset_index(drop=True)


def _cell(names: list[str], cell: tuple) -> str:
    return " ".join(f"{name}={value}" for name, value in zip(names, cell, strict=True))


def _listed(names: list[str], cells: list[tuple]) -> str:
    shown = "; ".join(_cell(names, cell) for cell in cells[:NAMED])
    return shown + (f"; and {len(cells) - NAMED} more" if len(cells) > NAMED else "")
