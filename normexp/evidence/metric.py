"""One number of a finished run: what a training claim's `metric` names."""

import fnmatch
import math
from pathlib import Path
from typing import Any

import pandas as pd


def read_metric(metric: str, summary: dict[str, Any], folder: Path) -> tuple[float, bool]:
    """(value, censored) of one run.

    `test/accuracy` and the like: the final metric, nan for a diverged run. `convergence/steps_to_0.9`: where the run
    never got there, the steps it took, censored. `logged/<glob>`: the mean of all matching rows of metrics.csv;
    `logged/<glob> - <glob>`: the mean of the first minus that of the second.
    """
    group, _, name = metric.partition("/")
    diverged = summary["status"] == "diverged"
    if group == "logged":
        means = [_mean(folder, tag) for tag in name.split(" - ")]
        return (math.nan if diverged else means[0] - sum(means[1:])), False
    if group == "convergence":
        value = summary["convergence"][name]
        if value is None:
            return (math.nan, False) if diverged else (float(summary["steps"]), True)
        return float(value), False
    value = summary["metrics"].get(metric)
    return (math.nan if diverged or value is None else float(value)), False


def _mean(folder: Path, glob: str) -> float:
    rows = pd.read_csv(folder / "metrics.csv")
    rows = rows[[fnmatch.fnmatchcase(tag, glob) for tag in rows["metric"]]]
    if rows.empty:
        raise ValueError(
            f"metric=logged/{glob}: {folder} logged nothing of that name; add its monitor to the claim"
        )
    return float(rows["value"].mean())
