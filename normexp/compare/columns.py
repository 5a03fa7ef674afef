"""The columns of a stranger's table: by their short names, as numbers, as states of runs."""

import difflib
import re

import numpy as np
import pandas as pd

PREFIX = re.compile(r"(?:params|metrics|config|summary|tags)[./]")
NO_METRICS = {"batch_size", "lr", "epoch", "epochs", "step", "steps", "time", "seconds"}
STATE_KEYS = ("state", "status", "failed", "diverged", "crashed")  # columns of exports
# What they say of a run.
STATES = {
    "running": "running pending queued scheduled unfinished preempting waiting paused created in_progress inprogress",
    "ended": "finished completed complete success succeeded ok done terminated published false no n 0 0.0 none",
    "failed": "failed fail crashed killed error errored diverged oom out_of_memory timeout timed_out cancelled canceled"
    " aborted interrupted stopped preempted pruned node_fail nan true yes y 1 1.0",
}
STATE_OF = {"": "ended"} | {word: kind for kind, spellings in STATES.items() for word in spellings.split()}


def matching(table: pd.DataFrame, name: str) -> list[str]:
    """The columns of a name: as it is written, else `params.norm` or `config/norm` for norm, else in another case."""
    names = [*map(str, table.columns)]
    return (
        [full for full in names if full == name]
        or [full for full in names if PREFIX.match(full) and PREFIX.sub("", full, count=1) == name]
        or [full for full in names if full.lower() == name.lower()]
    )


def is_metric(name: str) -> bool:
    """Whether a column may hold results: those of `epoch` and `params.lr` are settings and counts."""
    return PREFIX.sub("", name).lower() not in NO_METRICS


def column(table: pd.DataFrame, name: str, argument: str) -> str:
    """The one column of a name, or whose path ends with it. Raises ValueError with the nearest names."""
    names = [*map(str, table.columns)]
    found = matching(table, name) or [full for full in names if full.replace("/", ".").endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    near = found or difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names[:12]
    raise ValueError(f"{argument}={name}: no such column; write {argument}=NAME, one of {', '.join(near)}")


def stripped(column: pd.Series) -> pd.Series:
    """The values of a column as texts without spaces around them; empty where it is."""
    return column.astype("string").str.strip().fillna("")


def numbers(column: pd.Series, name: str) -> np.ndarray:
    """Numbers of a column, also as text, `78.2%`; nan where it is empty, or says a state such as crashed. Raises
    ValueError for other texts, and for percents beside others."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float, na_value=np.nan)
    texts = stripped(column)
    percent = texts.str.endswith("%").to_numpy(bool)
    values = pd.to_numeric(texts.str.rstrip("% "), errors="coerce").to_numpy(float, na_value=np.nan)
    wrong = texts[np.isnan(values) & ~texts.str.lower().isin({*STATE_OF, "-", "–", "null", "na", "n/a"})]
    if len(wrong):
        row, text = wrong.index[0] + 1, wrong.iloc[0]
        raise ValueError(
            f"{name}={text} (row {row}): is no number; write digits and a point alone, or leave it empty"
        )
    if percent.any() and (~percent & np.isfinite(values)).any():
        raise ValueError(f"value={name}: some values are percents and some are not; write all in one unit")
    return values


def states(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(which runs failed, which still run), by the columns `state`, `status`, `failed`, `diverged` and `crashed`,
    if there are any. Raises ValueError for a word that says neither."""
    failed, running = np.zeros(len(table), bool), np.zeros(len(table), bool)
    for name in table.columns:
        if str(name).lower() in STATE_KEYS:
            stated = stripped(table[name]).str.lower().map(STATE_OF)
            if stated.isna().any():
                word = table[name][stated.isna()].iloc[0]
                known = "finished, running, failed, ... (failed: true, false)"
                raise ValueError(
                    f"{name}={word}: is no known state of a run; write {known}, or rename the column"
                )
            failed |= stated.eq("failed").to_numpy(bool)
            running |= stated.eq("running").to_numpy(bool)
    return failed, running


def labels(table: pd.DataFrame, names: list[str]) -> pd.Series:
    """The values of columns as one text each row, `digits 8`; empty without a column. 3 of 3.0, too, as a column with
    a gap reads."""
    if not names:
        return pd.Series("", table.index)
    texts = table[names].convert_dtypes().astype(str)
    return texts.apply(lambda values: values.str.strip()).agg(" ".join, axis=1)
