"""Learning curves of the runs in a ledger, the runs that a claim's page draws, and means over seeds for TensorBoard.

`bank/<cell>.curves.csv.gz` has those of the grid, `claims/<id>/curves.csv.gz` those of a claim's own runs: one row per
run and validation. They lie in the ledger's second archive.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.disk_runs import RunKey
from normexp.claims.evidence.plan import KEY, Known
from normexp.claims.evidence.stored import LEDGER, OWN_LEDGER, PLACE, StoredEvidence, grid_arms, level_text
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.runs import failed, finished_summary
from normexp.runs.read import read_metrics
from normexp.runs.table import half_widths

METRIC, DIGITS = "val/accuracy", 4
KEYS = ["cell", *KEY]
LEVEL = 0.95
FEW = 6  # overrides of a setting that its name can list


def bank_curves(folder: Path, cell: str) -> Path:
    """The file with the curves of a cell of the grid."""
    return folder / f"{cell}.curves.csv.gz"


def own_curves(folder: Path, claim: str) -> Path:
    """The file with the curves of a claim's own runs."""
    return folder / claim / "curves.csv.gz"


def curves_of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The curves of runs with a folder, one row per run and validation.

    Raises ValueError for a run whose `metrics.csv` is absent or cut off.
    """
    runs = runs.reset_index(drop=True)
    read = read_metrics([Path(folder) for folder in runs["folder"]], runs["steps"].tolist())
    read = read[read["metric"] == METRIC]
    keys = runs.reindex(columns=KEYS)
    keys["level"] = keys["level"].astype(object).where(keys["level"].notna(), "")
    curves = read.join(keys, on="run").assign(accuracy=read["value"].round(DIGITS))
    return curves[[*KEYS, "step", "epoch", "accuracy"]].reset_index(drop=True)


def write_curves(path: Path, curves: pd.DataFrame) -> None:
    """Write curves. The same runs give the same bytes."""
    curves.to_csv(path, index=False, float_format="%.6g", compression={"method": "gzip", "mtime": 0})


def read_curves(path: Path | None) -> pd.DataFrame:
    """Columns cell, norm, level, seed, lr, step, epoch, accuracy; no rows if there is no such file."""
    if path is None or not path.exists():
        return pd.DataFrame(columns=[*KEYS, "step", "epoch", "accuracy"])
    return pd.read_csv(path, keep_default_na=False, dtype={"level": str})


def mean_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds and its 95% t interval, at the steps at which every seed was validated: columns arm, step, epoch,
    mean, low, high, n.

    Args:
        curves: columns arm, seed, step, epoch, accuracy.
    """
    by = curves.groupby(["arm", "step"], sort=False)
    means = by["accuracy"].agg(["mean", "std", "count"]).reset_index()
    means["epoch"] = by["epoch"].mean().to_numpy()
    half = half_widths(means["std"], means["count"], LEVEL)
    means = means.assign(low=means["mean"] - half, high=means["mean"] + half, n=means["count"])
    whole = means["n"] == means.groupby("arm")["n"].transform("max")
    return means.loc[whole, ["arm", "step", "epoch", "mean", "low", "high", "n"]].reset_index(drop=True)


def ledger_of(claim: Claim, verdict: dict[str, Any], root: Path) -> dict[str, pd.DataFrame]:
    """Setting -> the runs that its verdict rests on, the claim's own and those of the grid, named by their arms."""
    ledger = {}
    for cell in _cells(claim, verdict):
        runs = StoredEvidence(root / PLACE).rows(claim, cell)
        runs = runs[runs["seed"].isin(list(claim.seed_range))] if len(runs) else runs
        if len(runs):
            ledger[cell.name] = runs.assign(norm=arm_names(runs))
    return ledger


def _cells(claim: Claim, verdict: dict[str, Any]) -> Iterator[BankCell]:
    """The settings of a verdict from trained runs."""
    if claim.evidence == "training":
        for name in (row["name"] for row in verdict["settings"] if row["name"] in claim.cells):
            yield claim.cells[name]


def setting_names(claim: Claim) -> dict[str, str]:
    """Setting -> its name for people: what it is, "digits, tanh MLP", with its own name if two are alike."""
    kinds = kinds_of_settings(claim)
    return {
        name: f"{kind} ({name})" if len(kinds[kind]) > 1 else kind
        for kind, names in kinds.items()
        for name in names
    }


def kinds_of_settings(claim: Claim) -> dict[str, list[str]]:
    """What settings are -> the names of those that are alike."""
    cells = claim.cells if claim.evidence == "training" or claim.drawn else {}
    kinds: dict[str, list[str]] = {}
    for name, overrides in claim.settings.items():
        kinds.setdefault(cells[name].what if name in cells else in_words(overrides) or name, []).append(name)
    return kinds


def in_words(overrides: Any) -> str:
    """`mlp, digits, initialization xavier` of a few overrides; empty for many, and for what is no list."""
    if not isinstance(overrides, list | tuple) or len(overrides) > FEW:
        return ""
    parts = [str(override).lstrip("+").partition("=")[::2] for override in overrides]
    return ", ".join(
        value if key in ("model", "data", "norm") else f"{key.split('.')[-1]} {value}".replace("_", " ")
        for key, value in parts
    )


def arm_names(runs: pd.DataFrame) -> pd.Series:
    """The arm of each run, with its level where the claim has levels."""
    return (runs["norm"] + " " + runs["level"].map(level_text)).str.strip()


def curves_of(claim: Claim, verdict: dict[str, Any], root: Path) -> dict[str, pd.DataFrame]:
    """Setting -> the mean learning curve of each arm, over the runs that the verdict compares; those that diverged are
    left out. A setting without kept curves has none."""
    stored = StoredEvidence(root / PLACE)
    known, mean_of_setting = Known(claim, stored, None), {}
    mine = read_curves(own_curves(root / OWN_LEDGER, claim.id))
    for cell in _cells(claim, verdict):
        grid_curves = read_curves(bank_curves(root / LEDGER, cell.name))
        parts = [
            grid_curves[grid_curves["norm"] == norm].assign(norm=arm)
            for (arm, _), norm in grid_arms(claim, cell).items()
        ]
        curves = pd.concat([mine[mine["cell"] == cell.name], *parts], ignore_index=True)
        if curves.empty or (runs := known.judged(cell)).empty:
            continue
        done = runs[runs["status"] == "completed"]
        done, curves = (table.assign(level=table["level"].map(level_text)) for table in (done, curves))
        curves = done[KEY].merge(curves.drop_duplicates([*KEY, "step"]), on=KEY)
        if len(curves):
            mean_of_setting[cell.name] = mean_curves(curves.assign(arm=arm_names(curves)))
    return mean_of_setting


def write_claim_means(runs: Sequence[tuple[RunKey, Path]], folder: Path) -> Path | None:
    """Write a run for each arm and level under `folder`, over the seeds of these runs with their folders; failed runs
    are left out. Returns the folder of the runs, or None if no arm has two seeds."""
    from normexp.report.tensorboard_means import FOLDER, in_path, write_means  # loads TensorBoard

    finished = [(run, place, finished_summary(place)) for run, place in runs]
    done = [(run, place, summary["steps"]) for run, place, summary in finished if not failed(summary)]
    if not done:
        return None
    rows = read_metrics([place for _, place, _ in done], [steps for _, _, steps in done])
    place = [in_path(f"{run.arm} {run.level if run.level is not None else ''}".strip()) for run, _, _ in done]
    columns = pd.DataFrame({"place": place, "seed": [run.seed for run, _, _ in done]})
    return write_means(rows.join(columns, on="run"), folder / FOLDER)
