"""For TensorBoard: one run per arm with the mean over its seeds, and the interval as bands. So 80 runs become four."""

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

from normexp.report.statistics import curves, of_all_runs
from normexp.report.study import Study, as_text, label, spread_over

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
# Beside those over steps, because batch sizes differ; TensorBoard opens the first two groups of tags alone.
BY_SAMPLES = {"val/accuracy": "Accuracy/val by samples", "val/loss": "Loss/val by samples"}
ENDS = ("low", "mean", "high")
MOST_MEANS = 36  # TensorBoard starts with no run ticked above 40


def write_mean_runs(study: Study, out: Path) -> Path | None:
    """Write a run for each arm and level of a study under `out`. Returns the folder, or None if no arm has two runs."""
    rows = study.metrics
    most = max(MOST_MEANS // len(study.arms), 1)
    rows = rows[~rows["failed"] & rows["metric"].isin([*SHOWN, *LOGARITHMIC])]
    rows = rows[rows["level"].isin(spread_over(study.levels or [0], most))]
    points = list(zip(rows["arm"], rows["level"], strict=True))
    names: dict[tuple, str] = {}
    for arm, level in dict.fromkeys(points):
        name = in_path(arm)
        name = f"{in_path(f'{label(study.x)} {in_order(level, study.levels)}')}/{name}" if study.x else name
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
    seeds = recorded.groupby("place", observed=True)["seed"].nunique()
    means: dict[str, dict[str, pd.DataFrame]] = {}
    for place in seeds[seeds > 1].index:
        group = recorded[recorded["place"] == place]
        means[str(place)] = {tag: mean_curve(group, name) for name, tag in tags.items()}
        if "samples" in group:
            by = group.assign(step=group["samples"])
            means[str(place)] |= {tag: mean_curve(by, name) for name, tag in BY_SAMPLES.items()}
    charts = {
        (place.rpartition("/")[0], tag): None
        for place, place_curves in means.items()
        for tag in SHOWN.values()
        if place_curves[tag]["low"].notna().any()
    }
    for place, place_curves in means.items():
        write_run(folder / place, place_curves, place.rpartition("/")[0], list(charts))
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
    """Columns step, mean, low, high, for the steps at which every run recorded the metric."""
    metric_rows = rows[rows["metric"] == metric].assign(all="")
    curve = curves(metric_rows, ["all"], "step", log=metric in LOGARITHMIC)
    if metric in LOGARITHMIC:
        curve[["mean", "low", "high"]] = np.log10(curve[["mean", "low", "high"]])
    return of_all_runs(curve, ["all"])


def write_run(
    folder: Path, means: Mapping[str, pd.DataFrame], level: str, charts: list[tuple[str, str]]
) -> None:
    """One event file: the means as scalars, their intervals, and the page of bands. Each run has the whole page: of
    parts, TensorBoard would show the last run's first."""
    folder.mkdir(parents=True)
    with (folder / f"events.out.tfevents.{int(time.time()):010d}.mean").open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        writer.write(event(0, [bands(charts)] if charts else []))
        for tag, curve in means.items():
            for row in curve.itertuples():
                values = {tag: row.mean} | {
                    interval_tag(tag, level, end): getattr(row, end) for end in ENDS if (level, tag) in charts
                }
                numbers = {name: float(value) for name, value in values.items() if value == value}
                scalars = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
                writer.write(event(row.step, scalars))


def event(step: int, values: list[Summary.Value]) -> bytes:
    """One record of an event file."""
    return Event(wall_time=time.time(), step=int(step), summary=Summary(value=values)).SerializeToString()


def interval_tag(tag: str, level: str, end: str) -> str:
    """The tag of an end of an interval. It has the level, because a chart shows all runs that have its tags."""
    return f"interval/{tag}{', ' * bool(level)}{level}: {end}"


def bands(charts: list[tuple[str, str]]) -> Summary.Value:
    """The layout of the custom scalars: a chart for each level and tag, each mean inside its interval."""
    layout = layout_pb2.Layout()
    # TensorBoard draws such charts in reverse order.
    category = layout.category.add(title="Mean over seeds, 95% interval")
    for level, tag in reversed(charts):
        low, mean, high = (interval_tag(tag, level, end) for end in ENDS)
        series = layout_pb2.MarginChartContent.Series(value=mean, lower=low, upper=high)
        category.chart.add(
            title=f"{tag}{', ' * bool(level)}{level}", margin=layout_pb2.MarginChartContent(series=[series])
        )
    plugin = SummaryMetadata.PluginData(plugin_name="custom_scalars")
    tensor = TensorProto(
        dtype=DT_STRING, string_val=[layout.SerializeToString()], tensor_shape=TensorShapeProto()
    )
    return Summary.Value(
        tag="custom_scalars__config__", tensor=tensor, metadata=SummaryMetadata(plugin_data=plugin)
    )


def address(study: Study) -> str:
    """The part of TensorBoard's address that gives every run the color of its norm. Where a study has levels, each mean
    keeps a color of its own."""
    if study.x:
        return "?smoothing=0"
    norms = "|".join(sorted({arm.split(" · ")[0] for arm in study.arms}, key=lambda norm: (-len(norm), norm)))
    return f"?runColorGroup=regex:({norms})&smoothing=0"
