"""One number of a finished run, named by the `metric` of a training claim."""

import difflib
import fnmatch
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd


def read_metric(metric: str, summary: dict[str, Any], folder: Path) -> tuple[float, bool]:
    """(value, censored) of one run.

    - `test/accuracy` and the like: the final metric; nan for a diverged run
    - `convergence/steps_to_0.9`: if the run never reached the target, all its steps, censored
    - `logged/<glob>`: the mean of all matching rows of metrics.csv
    - `logged/<glob> - <glob>`: the mean for the first glob minus the mean for the second

    Raises ValueError for a name that the run does not have. With nan instead, every run would count as diverged.
    """
    group, _, name = metric.partition("/")
    diverged = summary["status"] == "diverged"
    if group == "logged":
        means = [_mean(folder, tag) for tag in name.split(" - ")]
        return (math.nan if diverged else means[0] - sum(means[1:])), False
    if group == "convergence":
        known = [f"convergence/{key}" for key in summary["convergence"]]
        hint = "; accuracies=[...] among the claim's fixed overrides sets the targets"
        _check_known(metric, known, folder, hint)
        value = summary["convergence"][name]
        if value is None:
            return (math.nan, False) if diverged else (float(summary["steps"]), True)
        return float(value), False
    _check_known(metric, summary["metrics"], folder)
    value = summary["metrics"][metric]
    if diverged:
        return math.nan, False
    if value is None:
        raise ValueError(
            f"metric={metric}: {folder} has no number there, yet did not diverge; train it again"
        )
    return float(value), False


def _check_known(metric: str, known: Iterable[str], folder: Path, hint: str = "") -> None:
    names = list(known)
    if metric in names:
        return
    near = difflib.get_close_matches(metric, names, n=3, cutoff=0.3) or names
    raise ValueError(f"metric={metric}: {folder} has no such metric; nearest: {', '.join(near)}{hint}")


def _mean(folder: Path, glob: str) -> float:
    rows = pd.read_csv(folder / "metrics.csv")
    rows = rows[[fnmatch.fnmatchcase(tag, glob) for tag in rows["metric"]]]
    if rows.empty:
        raise ValueError(
            f"metric=logged/{glob}: {folder} logged nothing of that name; add its monitor to the claim"
        )
    return float(rows["value"].mean())
