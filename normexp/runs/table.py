"""The runs of a folder: finished ones as pandas tables, and those without a result. A run's identity comes from its
summary, never from its folder's name."""

import itertools
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from normexp.runs.columns import flatten, repeating, varying
from normexp.runs.read import read_metrics
from normexp.runs.summary import SUMMARY, Damaged, finished_summary

if TYPE_CHECKING:
    import pandas as pd

Grid = Mapping[str, Iterable[Any]]
ALWAYS = ("model", "norm", "data", "optimizer", "schedule", "batch_size", "lr", "seed", "status")
IDENTITY = Path(".hydra") / "identity"
FEWEST_SEEDS = 5  # with fewer, neither reports nor the judge rank arms
# With fewer seeds there is no interval anywhere, and the values themselves are shown. The t interval of two is 18
# standard deviations wide; one over test examples alone says nothing of other seeds.
FEWEST_FOR_INTERVAL = 3
NAMED = 5  # a message names so many cells and counts the others


class RunFolders(NamedTuple):
    """The folders of runs, sorted."""

    finished: list[Path]
    unfinished: list[Path]


def find_runs(path: str | Path) -> RunFolders:
    """The folders of runs at or under `path`. Folders inside a run and hidden folders are not searched.

    Raises ValueError if `path` is no folder.
    """
    root = Path(path)
    if not root.is_dir():
        raise ValueError(f"path={root}: no such folder; runs go to outputs/<name>, check the name")
    finished, unfinished = [], []
    for folder, below, files in os.walk(root):
        begun = (Path(folder) / IDENTITY).exists()
        if SUMMARY in files:
            finished.append(Path(folder))
        elif begun:
            unfinished.append(Path(folder))
        ends = begun or SUMMARY in files
        below[:] = [] if ends else [name for name in below if not name.startswith(".")]
    return RunFolders(sorted(finished), sorted(unfinished))


def read_ledgers(path: Path) -> list[dict[str, Any]]:
    """The `sweep.json` of each launch, oldest first."""
    return [json.loads(file.read_text()) for file in sorted(path.glob(".sweeps/*/sweep.json"))]


def open_runs(path: Path, finished: Collection[str], unfinished: Iterable[Path]) -> list[dict[str, str]]:
    """Runs without a result: planned, failed or interrupted in a sweep, or single runs that are not finished.

    Args:
        finished: hashes of the runs that have one.
        unfinished: folders, as `find_runs` gives them.
    """
    rows: dict[str, dict[str, str]] = {}
    for sweep in read_ledgers(path):
        for cell in sweep["cells"]:
            if cell["hash"] not in finished and cell["state"] != "skipped":
                why = {"why": cell["error"] or "", "log": cell["log"] or ""}
                rows[cell["run"]] = {"run": cell["run"], "state": cell["state"], **why}
    for folder in unfinished:
        run = folder.relative_to(path).as_posix()
        rows.setdefault(run, {"run": run, "state": "unfinished", "why": "", "log": ""})
    return [rows[name] for name in sorted(rows)]


def load_summaries(
    path: str | Path,
    grid: Grid | None = None,
    *,
    skipped: list[str] | None = None,
    found: RunFolders | None = None,
) -> "pd.DataFrame":
    """One row for each finished run at or under `path`; the columns are those of `normexp.runs.columns.flatten`.

    A diverged run is a finished run. Missing values are NaN: an accuracy that was never reached, a loss that was not
    finite, an option that the norm does not have.

    Args:
        grid: `{"norm": ["batchnorm", "none"], "batch_size": [2, 8], "seed": range(5)}` keeps only these cells, in this
            order. A missing cell is an error.
        skipped: takes the line about each summary that cannot be read. Its run is then left out, in place of an error.
        found: what `find_runs` gave for `path`, so that the folder is not searched again.

    Raises ValueError with one line for a path without finished runs, a summary that cannot be read, and a grid with
    missing or ambiguous cells.
    """
    import pandas as pd

    finished, unfinished = found or find_runs(path)
    if not finished:
        begun = f"; {len(unfinished)} unfinished: the same command resumes them" if unfinished else ""
        raise ValueError(f"path={path}: holds no finished run{begun}")
    rows = []
    for folder in finished:
        try:
            rows.append(flatten(finished_summary(folder), folder.relative_to(path).as_posix()))
        except Damaged as error:
            if skipped is None:
                raise
            skipped.append(str(error))
    if not rows:
        raise ValueError(f"path={path}: holds no run that can be read; {(skipped or [''])[0]}")
    table = pd.DataFrame(rows)
    table = table.drop(columns=repeating(table))
    for name in table.columns.astype(str):  # a column of nulls counts as a column of numbers
        if "/" in name or name.startswith("convergence."):
            table[name] = pd.to_numeric(table[name])
    return table if grid is None else select_grid(table, grid)


def load(
    path: str | Path, grid: Grid | None = None, *, metrics: Iterable[str] | None = None
) -> "pd.DataFrame":
    """The tidy table: one row for each (run, metric, step) of the finished runs at or under `path`.

    Columns: `run` (folder); model, norm, data, optimizer, schedule, batch_size, lr, seed, status; each parameter of
    the norms (`norm.correction`) and every other column in which the runs differ; then `step`, `epoch`, `samples`,
    `seconds`, `metric`, `value`. Text columns are categorical.

    Args:
        grid: as in `load_summaries`.
        metrics: read only these; a name that no run recorded is an error.
    """
    import pandas as pd

    summaries = load_summaries(path, grid)
    values = read_metrics([Path(path) / run for run in summaries["run"]], metrics)
    always = [name for name in ALWAYS if name in summaries]
    of_norms = [name for name in summaries.columns.astype(str) if name.startswith("norm.")]
    run = values.pop("run").to_numpy()
    columns = {}
    for name in dict.fromkeys(["run", *always, *of_norms, *varying(summaries)]):
        column = summaries[name]
        if not pd.api.types.is_numeric_dtype(column):
            column = column.astype("category")
        columns[name] = column.take(run).reset_index(drop=True)
    table = pd.DataFrame({**columns, **values})
    table.insert(list(table.columns).index("seconds"), "samples", samples_seen(summaries, run, table["step"]))
    return table


def samples_seen(summaries: "pd.DataFrame", run: "np.ndarray", step: "pd.Series") -> "np.ndarray":
    """Training samples that the first `step` steps of a run have seen, (rows,).

    A step has the samples of all batches whose gradients it adds up; the last step of an epoch has the batches that
    are left. An epoch has `samples / epochs` samples.

    Args:
        run: each row's index into `summaries`.
    """
    import pandas as pd

    def column(name: str, absent: float) -> np.ndarray:
        values = summaries.get(name, pd.Series(absent, summaries.index))
        return pd.to_numeric(values, errors="coerce").to_numpy(dtype=float)

    size, samples, epochs = column("batch_size", 1), column("samples", np.nan), column("epochs", 0)
    batches = np.nan_to_num(column("trainer.accumulate_grad_batches", 1), nan=1.0)  # of a step
    with np.errstate(invalid="ignore", divide="ignore"):
        epoch = np.round(samples / size / epochs)  # batches
    epoch = np.where(np.isfinite(epoch) & (epoch > 0), epoch, batches)
    whole, rest = np.divmod(step.to_numpy(), np.ceil(epoch / batches)[run])
    return ((whole * epoch[run] + rest * batches[run]) * size[run]).round().astype(np.int64)


def select_grid(summaries: "pd.DataFrame", grid: Grid) -> "pd.DataFrame":
    """The rows of a grid such as `{"norm": ["batchnorm", "none"], "batch_size": [2, 8], "seed": range(5)}`. Cells are
    the product of its columns, in that order; a text or a number is a list of one.

    Raises ValueError for a column that the table lacks or that has no value, for cells without a run (it names them),
    and for a cell with several runs (it names the columns in which they differ).
    """
    names = list(grid)
    for name in names:
        if name not in summaries:
            raise ValueError(
                f"grid: {name} is no column of the table; the columns are {', '.join(summaries.columns)}"
            )
    groups = dict(iter(summaries.groupby(names, dropna=False)))
    values = [
        list(column) if isinstance(column, Iterable) and not isinstance(column, str) else [column]
        for column in grid.values()
    ]
    if [] in values:
        raise ValueError(f"grid: {names[values.index([])]} has no value; give it one or more")
    cells = list(itertools.product(*values))

    def shown(cell: tuple) -> str:
        return " ".join(f"{name}={value}" for name, value in zip(names, cell, strict=True))

    if missing := [shown(cell) for cell in cells if cell not in groups]:
        more = f"; and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise ValueError(
            f"grid: {len(missing)} of {len(cells)} cells have no finished run: {'; '.join(missing[:NAMED])}{more}; "
            "start the same sweep again, it runs only what is missing"
        )
    for cell in cells:
        if len(groups[cell]) > 1:
            differing = [name for name in varying(groups[cell]) if name not in names]
            why = f"differ in {', '.join(differing)}; add these columns to the grid"
            why = why if differing else "are the same run; remove all but one"
            raise ValueError(f"grid: cell {shown(cell)} holds {len(groups[cell])} runs, which {why}")
    return summaries.loc[[groups[cell].index[0] for cell in cells]].reset_index(drop=True)


def t_quantile(level: float, df: Any) -> Any:
    """Half the width of a two-sided interval at `level`, in standard errors. Elementwise over degrees of freedom."""
    from scipy.special import stdtrit  # t.ppf of scipy.stats, which takes a second to import

    return stdtrit(df, (1 + level) / 2)


def half_widths(std: Any, n: Any, level: float) -> Any:
    """Half the width of the t interval of a mean: t(n - 1) s / sqrt(n), elementwise; NaN below FEWEST_FOR_INTERVAL.

    `std` is the standard deviation with n - 1 in its denominator.
    """
    n = np.asarray(n, dtype=float)
    n = np.where(n >= FEWEST_FOR_INTERVAL, n, np.nan)
    return t_quantile(level, n - 1) * np.asarray(std) / np.sqrt(n)
