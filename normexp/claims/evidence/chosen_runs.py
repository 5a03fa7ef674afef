"""Which run of each arm and seed is read: the one at the seed's own best rate, or at the rate of the sentence."""

from collections.abc import Callable

import pandas as pd

from normexp.claims.judge.tuning import rate_table, tuned
from normexp.claims.spec.bank import BankCell

# What may choose a rate: higher is better, with what decides between equal ones.
SCORES: dict[str, Callable[[pd.DataFrame], tuple[pd.Series, pd.Series]]] = {
    "error": lambda runs: (runs["val_accuracy"], -runs["val_loss"]),
    "loss": lambda runs: (-runs["val_loss"], runs["val_accuracy"]),
    "steps": lambda runs: (-runs["value"], runs["val_accuracy"]),
}
SCORES["fit"] = SCORES["loss"]
SCORES["failed"] = SCORES["value"] = SCORES["error"]  # a run that failed was the best that its seed found


def measure_of(metric: str) -> str:
    """What a claim's metric asks of runs: `error` and `loss` on test have examples, `fit` is the loss on the training
    split, `failed` asks whether they learned, `steps` when they got somewhere, `value` is any other number."""
    known = {"test/error": "error", "test/loss": "loss", "failed": "failed", "train/loss": "fit"}
    if metric in known:
        return known[metric]
    return "steps" if metric.startswith("convergence/") else "value"


def runs_at(runs: pd.DataFrame, cell: BankCell, measure: str, rate: str) -> pd.DataFrame:
    """Of the runs of one cell one for each norm, level and seed: at its `own` best rate, or at the `lowest`, `middle`
    or `highest` of the grid."""
    return tuned_runs(runs, measure) if rate == "own" else runs[runs["lr"] == cell.rate(rate)]


def tuned_runs(runs: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The row of each norm, level and seed at its best rate by its own validation score on what is measured. Where
    every rate failed, the one that comes first."""
    score, tie = SCORES[measure](runs)
    levels = runs["level"] if "level" in runs else [""] * len(runs)
    table = rate_table(
        [
            {"setting": row.cell, "arm": row.norm, "level": level, "rate": row.lr, "seed": row.seed, "score": s,
             "tie": t, "value": index, "failed": row.status != "completed"}
            for index, (row, level, s, t) in enumerate(zip(runs.itertuples(), levels, score, tie, strict=True))
        ]
    )  # fmt: skip
    return runs.iloc[tuned(table)["value"].astype(int).tolist()]
