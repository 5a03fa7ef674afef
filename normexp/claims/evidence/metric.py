"""The number of a finished run that a training claim compares, named by its `metric`:

- `test/error`, `train/loss` and the like: the final metric; `test/error_reestimated` and the like, of validation too:
  with running statistics that are estimated anew; `failed`: whether the run learned nothing
- `convergence/steps_to_0.9` (or any of `accuracies`): if the run never reached the target, all its steps;
  `convergence/auc`.
  A table has three values of it: the steps, infinity of a target that was never reached, nan of one that the run did
  not look for. What a run records is no part of its identity, so it may be any of the three.
- `logged/<glob>`: the mean of all matching rows of metrics.csv; `logged/last:<glob>`: of the last row of each tag
- `logged/<glob> - <glob>`: the mean for the first glob minus the mean for the second
"""

import fnmatch
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from normexp.claims.spec.claim import Claim
from normexp.claims.spec.recorded import ANEW, FINAL, SPEED, TARGET
from normexp.runs.read import read_metrics
from normexp.runs.summary import REESTIMATED

NUMBERS = {metric.replace("/", "_"): metric for metric in FINAL + ANEW if "error" not in metric}  # by column
STEPS_TO = "steps_to_"
NEVER = math.inf  # steps to a target that was never reached; nan: nobody looked for it
LAST = "last:"  # before a glob
# Tags that every run logs; others are a monitor's.
ALWAYS_LOGGED = (*FINAL, "lr", "train/*", "val/*", "test/*")


def quantity_of(claim: Claim) -> str:
    """What a claim's first metric counts. `error` and `loss` on test have examples. `fit` is the loss on the
    training split, `failed` whether a run learned, `steps` the steps to a target, `value` any other number."""
    metric = claim.metric_of(next(iter(claim.arms))).removesuffix(f"_{REESTIMATED}")
    quantities = {"test/error": "error", "test/loss": "loss", "failed": "failed", "train/loss": "fit"}
    return quantities.get(metric, "steps" if metric.startswith("convergence/steps_to_") else "value")


def with_values(claim: Claim, runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with two more columns: `value`, the number of the arm's own metric, and `check`, that of the
    manipulation check, which is nan in an arm that the check does not compare. Both are nan for a run that diverged.
    Of steps a third, `unreached`: whether the target was never reached, so that the value is a lower bound."""
    values = {name: np.full(len(runs), np.nan) for name in ("value", "check")}
    steps, unreached = quantity_of(claim) == "steps", np.zeros(len(runs), bool)
    ended = (runs["status"] == "completed").to_numpy()  # the last number of a diverged run means nothing
    for arm in claim.arms:
        here = ended & (runs["arm"] == arm).to_numpy()
        if not here.any():
            continue
        for name, metric in {"value": claim.metric_of(arm), "check": claim.check_of(arm)}.items():
            if metric and metric != "failed":
                values[name][here] = numbers_of(metric, runs[here])
        if steps:
            unreached[here] = runs.loc[here, column_of(claim.metric_of(arm))] == NEVER
    return runs.assign(**values, **({"unreached": unreached} if steps else {}))


def column_of(metric: str) -> str:
    """The column of a table of runs that tells a metric; of an error, that of the accuracy."""
    group, _, name = metric.partition("/")
    if group in ("logged", "convergence"):
        return metric.removeprefix("convergence/")
    return f"{group}_{name}".replace("error", "accuracy")


def numbers_of(metric: str, runs: pd.DataFrame) -> pd.Series:
    """The numbers of a metric in a table of runs: of steps to a target all steps of a run that never reached it."""
    column = column_of(metric)
    if column not in runs:
        raise ValueError(f"metric={metric}: no run of this table has it; evidence=none trains them anew")
    numbers = runs[column]
    if column.startswith(STEPS_TO):
        if unknown := int(numbers.isna().sum()):
            raise ValueError(
                f"metric={metric}: {unknown} of {len(runs)} runs did not look for this target; evidence=none and "
                "another out= train them anew"
            )
        return numbers.where(numbers != NEVER, runs["steps"])
    return 1 - numbers if metric in FINAL + ANEW and "/error" in metric else numbers


def speeds(convergence: Mapping[str, Any]) -> dict[str, float]:
    """The columns of speed, of a run's summary."""
    auc = convergence.get("auc")
    steps = {name: _steps(name, convergence) for name in SPEED if name.startswith(STEPS_TO)}
    return {"auc": math.nan if auc is None else float(auc), **steps}


def _steps(name: str, convergence: Mapping[str, Any]) -> float:
    """The steps to a target; infinity if it was never reached, nan if the run did not look for it."""
    steps = convergence.get(name, math.nan)
    return NEVER if steps is None else float(steps)


def read_recorded(metric: str, summary: Mapping[str, Any], folder: Path) -> float:
    """The number of a `logged/` metric, or the steps to a target, also of one that the evidence has no column for."""
    if metric.startswith("logged/"):
        return read_logged(metric, summary, folder)
    name, known = column_of(metric), summary["convergence"]
    return _steps(name, known) if name in known else steps_to(folder, float(name.removeprefix(STEPS_TO)))


def steps_to(folder: Path, target: float) -> float:
    """The steps to a target by the validations that a run wrote down. Raises ValueError if it wrote none."""
    rows = _logged(folder)
    curve = rows[rows["metric"] == "val/accuracy"].sort_values("step")
    if curve.empty:
        raise ValueError(f"metric=convergence/{STEPS_TO}{target:g}: {folder} wrote down no validation")
    reached = curve.loc[curve["value"] >= target, "step"]
    return NEVER if reached.empty else float(reached.iloc[0])


def check_metric(claim: Claim, metric: str, config: dict[str, Any]) -> None:
    """Raise ValueError with one line for a metric of a known name that no run of this configuration will have. Asked
    before the first run."""
    group, _, name = metric.partition("/")
    where = f"claim={claim.id}: metric={metric}: "
    steps = TARGET.fullmatch(metric)
    if steps and config.get("early_stopping") is not None:
        raise ValueError(
            f"{where}a run that stops before its target counts as fast; leave early_stopping out"
        )
    if steps and float(steps[1]) not in config["accuracies"]:
        raise ValueError(f"{where}no run will have it; add the target to accuracies=[...] among fixed")
    for tag in name.split(" - ") if group == "logged" and not config.get("monitor") else ():
        if not any(fnmatch.fnmatchcase(tag.removeprefix(LAST), pattern) for pattern in ALWAYS_LOGGED):
            raise ValueError(f"{where}nothing logs {tag}; add its monitor, such as monitor=full, to fixed")


def read_logged(metric: str, summary: Mapping[str, Any], folder: Path) -> float:
    """The number of a `logged/` metric; nan of a diverged run. Raises ValueError where nothing of the name was logged:
    with nan instead, every run would count as diverged."""
    globs = metric.removeprefix("logged/").split(" - ")
    first, *others = [_mean(folder, glob) for glob in globs]
    return math.nan if summary["status"] == "diverged" else first - sum(others)


def late_gain(summary: dict[str, Any], folder: Path, *, text: bool) -> float:
    """The share by which the error on validation (of a text: the loss) fell after two fifths of a run's updates; nan
    for a run that diverged, or was validated at its end alone."""
    rows = _logged(folder)
    curve = rows[rows["metric"] == ("val/loss" if text else "val/accuracy")].sort_values("step")
    early = curve[curve["step"] <= 0.4 * summary["steps"] + 1]
    if summary["status"] == "diverged" or early.empty:
        return math.nan
    last = [float(part["value"].iloc[-1]) for part in (early, curve)]
    before, after = last if text else (1 - accuracy for accuracy in last)
    return (before - after) / before if before > 0 else 0.0


def _mean(folder: Path, pattern: str) -> float:
    rows, glob = _logged(folder), pattern.removeprefix(LAST)
    rows = rows[[fnmatch.fnmatchcase(tag, glob) for tag in rows["metric"]]]
    if rows.empty:
        raise ValueError(
            f"metric=logged/{glob}: {folder} logged nothing of that name; add its monitor to the claim"
        )
    if pattern.startswith(LAST):
        rows = rows.groupby("metric", observed=True).tail(1)
    return float(rows["value"].mean())


@lru_cache(maxsize=2)  # a claim reads several tags of one run
def _logged(folder: Path) -> pd.DataFrame:
    """The rows of a run's `metrics.csv`. Raises ValueError for a file that was cut or has another form."""
    return read_metrics([folder])
