"""The evidence that comes with the package, and the table of finished runs: one row a run, whichever store has it."""

import functools
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.grid import ARM, OF_BANK, RUN, arms_in, cells_of
from normexp.claims.evidence.metric import ANEW, NEVER, STEPS_TO, column_of
from normexp.claims.evidence.registry import evidence_tag, protocol_of
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS

EVIDENCE = CONFIGS.parent / "docs" / "evidence"  # in a wheel the package carries it beside its configurations
RUNS, VALUES = "runs.parquet", "values.parquet"
NO_METRIC = ("logged/first:", "logged/middle:")  # columns of plans, which no metric of a claim can name
CPU = "cpu"  # the device of rows from before there was such a column
NO_RUNS = pd.DataFrame(columns=[*RUN, "status", "asked_by"])


def read(
    evidence: Path | None, grid: pd.DataFrame, claim: Claim, disk: pd.DataFrame = NO_RUNS
) -> pd.DataFrame:
    """The finished runs of a claim's grid, each once. Where a run exists several times, that which the evidence has for
    the claim comes first, then that of a bank's grid, then any other of the evidence, then that of this disk. Runs that
    were kept for others count only if they recorded what this claim reads, and a completed run that is older than a
    number of the claim counts as none."""
    kept = runs_in(evidence)
    kept = kept[kept["overrides"].isin(grid["overrides"].unique())].astype({"overrides": object})
    order = {"mine": asked_for(claim, kept), "of_bank": kept["asked_by"].astype(str).str.contains(OF_BANK)}
    kept = kept.assign(**order)[order["mine"] | ~_lacks(claim, grid, kept)]
    kept = kept.sort_values([*order], ascending=False, kind="stable").drop(columns=[*order])
    asked = {metric for arm in claim.arms for metric in claim.metrics_of(arm)}
    columns = sorted({column_of(metric) for metric in asked & {*ANEW}})
    runs = pd.concat([table for table in (kept, disk) if len(table)] or [kept], ignore_index=True)
    whole = (runs["status"] != "completed") | runs.reindex(columns=columns).notna().all(axis=1)
    return runs[whole].drop_duplicates(RUN, ignore_index=True)


def _lacks(claim: Claim, grid: pd.DataFrame, runs: pd.DataFrame) -> pd.Series:
    """Which finished runs have no number that an arm of the claim reads, of a tag or of speed: nobody asked for it."""
    lacks = pd.Series(False, index=runs.index)
    for arm in claim.arms:
        for metric in claim.metrics_of(arm):
            if metric.startswith(("logged/", "convergence/")):
                texts = grid.loc[grid["arm"] == arm, "overrides"].unique()
                column = column_of(metric)
                absent = runs[column].isna() if column in runs else True
                lacks |= runs["overrides"].isin(texts) & (runs["status"] == "completed") & absent
    return lacks


def runs_in(evidence: Path | None) -> pd.DataFrame:
    """Every run of the evidence in a folder; none without a folder."""
    return NO_RUNS if evidence is None else _read(evidence / RUNS)


def asked_for(claim: Claim, runs: pd.DataFrame) -> pd.Series:
    """Which kept runs the claim asked for, with its present protocol."""
    tag = evidence_tag(claim)
    return pd.Series([tag in tags.split() for tags in runs["asked_by"]], runs.index, dtype=bool)


def kept_grid(claim: Claim, table: pd.DataFrame) -> pd.DataFrame:
    """The grid of a kept verdict: the runs that were asked for under the claim's present protocol. It holds
    the wider rates and the more seeds that `widen` once asked for."""
    rows = table.loc[asked_for(claim, table), RUN]
    arms = [(cell.name, *arm) for cell in cells_of(claim) for arm in arms_in(claim, cell)]
    arms_table = pd.DataFrame(arms, columns=[*ARM, "overrides"]).astype({"level": object})
    return arms_table.merge(rows, on="overrides")


def values_of(evidence: Path, claim: Claim) -> pd.DataFrame | None:
    """The kept values of a claim without runs; None if there are none of its present protocol."""
    values = _read(evidence / VALUES)
    rows = values[(values["claim"] == claim.id) & (values["protocol"] == protocol_of(claim))]
    if rows.empty:
        return None
    levels = {level_text(level): level for level in claim.levels}
    rows = rows.assign(factor=[levels[level_text(text)] for text in rows["factor"]])
    text = {name: object for name in ("claim", "setting", "arm", "part", "case")}
    rows = rows.astype(text).reset_index(drop=True)
    return rows if rows["case"].any() else rows.drop(columns="case")


def level_text(level: object) -> str:
    """A level as it is written. A table may have 2.0 for the level 2."""
    try:
        return f"{float(level):g}"  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a list, null or a word
        return str(level)


@functools.lru_cache(maxsize=4)
def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise ValueError(f"{path}: no such file; name a folder with {RUNS} and {VALUES}, or evidence=none")
    from pyarrow.parquet import read_schema  # here, as it takes long to import

    table = pd.read_parquet(
        path, columns=[name for name in read_schema(path).names if not name.startswith(NO_METRIC)]
    )
    # Kept runs with an `auc` looked for these targets; the file has no number where one was never reached.
    for name in (name for name in table if str(name).startswith(STEPS_TO)):
        table[name] = table[name].mask(table[name].isna() & table["auc"].notna(), NEVER)
    return table
