"""For TensorBoard: the mean over seeds of each arm of a trained claim, with its interval as bands."""

from pathlib import Path

import pandas as pd

from normexp.claims.evidence.asking import Asking
from normexp.report.tensorboard_means import FOLDER, in_path, write_means
from normexp.runs import finished_summary
from normexp.runs.metrics import read_metrics


def write_claim_means(asking: Asking, folder: Path) -> Path | None:
    """Write a run for each arm and level of a claim that has its evidence, under `folder`, over the seeds that it
    compares; diverged runs are left out. Returns the folder of the runs, or None if no arm has two seeds."""
    runs = [(run, asking.runs.folder(run)) for run in asking.compared]
    found = [(run, place, finished_summary(place)) for run, place in runs]
    done = [(run, place, own["steps"]) for run, place, own in found if own["status"] == "completed"]
    if not done:
        return None
    rows = read_metrics([place for _, place, _ in done], [steps for _, _, steps in done])
    place = [in_path(f"{run.arm} {run.level if run.level is not None else ''}".strip()) for run, _, _ in done]
    seed = [run.seed for run, _, _ in done]
    own = rows.pop("run").to_numpy()
    rows = rows.assign(place=pd.Categorical(place).take(own), seed=pd.Series(seed).to_numpy()[own])
    return write_means(rows, folder / FOLDER)
