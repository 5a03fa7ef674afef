"""Choose the run of each arm and seed: at the seed's own best rate, or at the rate of the sentence."""

from collections.abc import Callable

import pandas as pd

from normexp.claims.judge.tuning import rate_table, tuned
from normexp.claims.spec.bank import BankCell

# Scores that may choose a rate (higher is better), each with a second score that breaks ties.
SCORES: dict[str, Callable[[pd.DataFrame], tuple[pd.Series, pd.Series]]] = {
    "error": lambda runs: (runs["val_accuracy"], -runs["val_loss"]),
    "loss": lambda runs: (-runs["val_loss"], runs["val_accuracy"]),
    "steps": lambda runs: (-runs["value"], runs["val_accuracy"]),
}
SCORES["fit"] = SCORES["loss"]
SCORES["failed"] = SCORES["value"] = SCORES["error"]  # a failed run counts if it was the best of its seed


def measure_of(metric: str) -> str:
    """The measure of a claim's metric. `error` and `loss` on test have examples. `fit` is the loss on the training
    split, `failed` whether a run learned, `steps` the steps to a target, `value` any other number."""
    known = {"test/error": "error", "test/loss": "loss", "failed": "failed", "train/loss": "fit"}
    if metric in known:
        return known[metric]
    return "steps" if metric.startswith("convergence/") else "value"


def runs_at(runs: pd.DataFrame, cell: BankCell, measure: str, rate: str) -> pd.DataFrame:
    """One run of a cell per norm, level and seed: at its `own` best rate, or at the `lowest`, `middle` or `highest` of
    the grid."""
    return tuned_runs(runs, measure) if rate == "own" else runs[runs["lr"] == cell.rate(rate)]


def tuned_runs(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The row of each norm, level and seed at its best rate, by its own validation score of `measure`. If every rate
    failed, the first row."""
    return runs.iloc[tuned(scored(runs, measure))["value"].astype(int).tolist()]


def scored(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The table that the choice of a rate reads. `value` is the position of each run."""
    score, tie = SCORES[measure](runs)
    return rate_table(
        pd.DataFrame(
            {
                "setting": runs["cell"],
                "arm": runs["norm"],
                "level": runs.get("level", ""),
                "rate": runs["lr"],
                "seed": runs["seed"],
                "score": score,
                "tie": tie,
                "value": range(len(runs)),
                "failed": runs["status"] != "completed",
            }
        ).reset_index(drop=True)
    )
