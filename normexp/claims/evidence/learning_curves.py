"""Validation accuracy during training, of the runs in a ledger: one row per run and validation, in a file of its own.

`<ledger>/<cell>.curves.csv.gz` has those of the bank, `<ledger>/<id>/curves.csv.gz` those of a claim's own runs.
"""

from pathlib import Path

import pandas as pd

from normexp.claims.evidence.claim_runs import RUN
from normexp.runs.intervals import half_widths
from normexp.runs.metrics import read_metrics

METRIC, DIGITS = "val/accuracy", 4
KEYS = ["cell", *RUN]
LEVEL = 0.95


def bank_curves(folder: Path, cell: str) -> Path:
    """The file with the curves of a cell of the bank."""
    return folder / f"{cell}.curves.csv.gz"


def own_curves(folder: Path, claim: str) -> Path:
    """The file with the curves of a claim's own runs."""
    return folder / claim / "curves.csv.gz"


def write_curves(path: Path, runs: pd.DataFrame) -> None:
    """Write the curves of these runs. The same runs give the same bytes.

    Args:
        runs: rows of a ledger, with the folder and the steps of each run.

    Raises ValueError for a run whose `metrics.csv` is absent or cut off.
    """
    runs = runs.reset_index(drop=True)
    read = read_metrics([Path(folder) for folder in runs["folder"]], runs["steps"].tolist())
    read = read[read["metric"] == METRIC]
    keys = runs.reindex(columns=KEYS)
    keys["level"] = keys["level"].astype(object).where(keys["level"].notna(), "")
    found = keys.iloc[read["run"]].reset_index(drop=True)
    found[["step", "epoch"]] = read[["step", "epoch"]].to_numpy()
    found["accuracy"] = read["value"].round(DIGITS).to_numpy()
    found = found.astype({"step": int})
    found.to_csv(path, index=False, float_format="%.6g", compression={"method": "gzip", "mtime": 0})


def read_curves(path: Path) -> pd.DataFrame:
    """Columns cell, norm, level, seed, lr, step, epoch, accuracy; no rows if there is no such file."""
    if not path.exists():
        return pd.DataFrame(columns=[*KEYS, "step", "epoch", "accuracy"])
    return pd.read_csv(path, keep_default_na=False, dtype={"level": str})


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds and its 95% t interval, at the steps at which every seed was validated: columns arm, step, epoch,
    mean, low, high, n.

    Args:
        curves: columns arm, seed, step, epoch, accuracy.
    """
    by = curves.groupby(["arm", "step"], sort=False)
    found = by["accuracy"].agg(["mean", "std", "count"]).reset_index()
    found["epoch"] = by["epoch"].mean().to_numpy()
    half = half_widths(found["std"], found["count"], LEVEL)
    found = found.assign(low=found["mean"] - half, high=found["mean"] + half, n=found["count"])
    whole = found["n"] == found.groupby("arm")["n"].transform("max")
    return found.loc[whole, ["arm", "step", "epoch", "mean", "low", "high", "n"]].reset_index(drop=True)
