"""For TensorBoard: the mean over seeds of each arm of a trained claim, with its interval as bands."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.disk_runs import RunKey
from normexp.report.tensorboard_means import FOLDER, in_path, write_means
from normexp.runs import failed, finished_summary
from normexp.runs.read import read_metrics


def write_claim_means(runs: Sequence[tuple[RunKey, Path]], folder: Path) -> Path | None:
    """Write a run for each arm and level under `folder`, over the seeds of these runs with their folders; failed runs
    are left out. Returns the folder of the runs, or None if no arm has two seeds."""
    found = [(run, place, finished_summary(place)) for run, place in runs]
    done = [(run, place, own["steps"]) for run, place, own in found if not failed(own)]
    if not done:
        return None
    rows = read_metrics([place for _, place, _ in done], [steps for _, _, steps in done])
    place = [in_path(f"{run.arm} {run.level if run.level is not None else ''}".strip()) for run, _, _ in done]
    seed = [run.seed for run, _, _ in done]
    own = rows.pop("run").to_numpy()
    rows = rows.assign(place=pd.Categorical(place).take(own), seed=pd.Series(seed).to_numpy()[own])
    return write_means(rows, folder / FOLDER)
