"""For TensorBoard: one run per arm with the mean over its seeds, so 80 runs become four."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from tensorboard.summary import Writer

from normexp.report.statistics import curves, of_all_runs
from normexp.report.study import Study, as_text, label

FOLDER = "means"
# Metric -> tag of its mean. It is the tag of the single runs, so that both appear in one chart.
SHOWN = {
    "val/accuracy": "Accuracy/val",
    "val/loss": "Loss/val",
    "train/accuracy": "Accuracy/train",
    "train/loss": "Loss/train",
}
# TensorBoard's pages have linear axes, so these are means of logarithms.
LOGARITHMIC = {"gradient_norm/network": "gradient_norm/network (log10)"}
MOST_MEANS = 36  # TensorBoard starts with no run ticked above 40


def write_mean_runs(study: Study, out: Path) -> Path | None:
    """Write a run for each arm and level of a study under `out`. Returns the folder, or None if no arm has two runs."""
    rows, levels = study.metrics, study.some_levels(max(MOST_MEANS // len(study.arms), 1))
    rows = rows[~rows["failed"] & rows["metric"].isin([*SHOWN, *LOGARITHMIC]) & rows["level"].isin(levels)]
    points = list(zip(rows["arm"], rows["level"], strict=True))
    names: dict[tuple, str] = {}
    for arm, level in dict.fromkeys(points):
        above = f"{in_path(f'{label(study.x)} {in_order(level, study.levels)}')}/" if study.x else ""
        name = above + in_path(arm)
        while name in names.values():  # as folders, two arms may have one name
            name += "+"
        names[arm, level] = name
    return write_means(rows.assign(place=pd.Categorical([names[point] for point in points])), out / FOLDER)


def write_means(rows: pd.DataFrame, folder: Path) -> Path | None:
    """Write a run for each group of runs. Returns the folder, or None if no group has two runs. Raises ValueError if a
    seed has two runs in a group.

    Old files are removed, because TensorBoard would show them too.

    Args:
        rows: columns place (of the group's run, below `folder`), seed, step, metric, value.
    """
    shutil.rmtree(folder, ignore_errors=True)
    tags = {**SHOWN, **LOGARITHMIC}
    recorded = rows[rows["metric"].isin(list(tags))]
    twice = recorded[recorded.duplicated(["place", "seed", "metric", "step"])]
    if len(twice):
        raise ValueError(f"{folder}: seed {twice['seed'].iloc[0]} has two runs in {twice['place'].iloc[0]}")
    for place, group in recorded.groupby("place", observed=True):
        if group["seed"].nunique() < 2:
            continue
        means = {tag: mean_curve(group, name) for name, tag in tags.items()}
        writer = Writer(str(folder / str(place)))
        for tag, curve in means.items():
            for step, mean in zip(curve["step"], curve["mean"], strict=True):
                writer.add_scalar(tag, float(mean), int(step))
        writer.close()
    return folder if folder.exists() else None


def in_order(level: float, levels: Sequence[float]) -> str:
    """A level as text that sorts among the others as it does as a number, which is how TensorBoard sorts."""
    texts = list(map(as_text, levels))
    whole = all(float(value).is_integer() for value in levels)
    if sorted(texts) == texts:
        return as_text(level)
    return as_text(level).zfill(max(map(len, texts))) if whole else f"{levels.index(level):02d}, {level:g}"


def in_path(name: str) -> str:
    """A name as the name of one folder."""
    return re.sub(r"[^\w ,.=+-]+", "-", name.replace(" · ", ", "))


def mean_curve(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Columns step and mean, for the steps at which every run recorded the metric."""
    metric_rows = rows[rows["metric"] == metric].assign(all="")
    curve = curves(metric_rows, ["all"], "step", log=metric in LOGARITHMIC)
    if metric in LOGARITHMIC:
        curve["mean"] = np.log10(curve["mean"])
    return of_all_runs(curve, ["all"])


def address(study: Study) -> str:
    """The part of TensorBoard's address that gives every run the color of its norm. Where a study has levels, each mean
    keeps a color of its own."""
    if study.x:
        return "?smoothing=0"
    norms = "|".join(sorted({arm.split(" · ")[0] for arm in study.arms}, key=lambda norm: (-len(norm), norm)))
    return f"?runColorGroup=regex:({norms})&smoothing=0"
