"""What runs logged, as a table of runs: a chart that W&B exports, and folders of TensorBoard and of normexp. Their
names say arm and seed."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from normexp.compare.effect import Curve
from normexp.format import pluralize
from normexp.runs.metrics import with_metric
from normexp.runs.table import find_runs, load_summaries, open_runs

# A number of these is a seed; that of the others only where an arm has several, unlike the 16 of vit_s16 and vit_16.
SEEDS = (
    re.compile(r"(?<![a-z])seed[-_= ]?(\d+)(?![.\d])|(?:run|version|trial|fold|rep)[-_ ]?(\d+)$", re.I),
    re.compile(r"(?<![a-z])s[-_= ]?(\d+)(?![.\d])", re.I),
    re.compile(r"(?<!\de)[-_/ ](\d+)$", re.I),  # not the 3 of 1e-3
)
CHART = re.compile(r"(?P<run>.+) - (?P<metric>.+)")  # a column of a chart of W&B
BOUNDS = ("__MIN", "__MAX")  # of such a column's values
Logged = dict[str, dict[str, Curve]]  # run -> metric -> its curve


class Opened(NamedTuple):
    """A table with one row a run, place of a row -> its curve of one metric, and what was left out or guessed."""

    table: pd.DataFrame
    curves: dict[Any, Curve]
    notes: list[str]


def charted(table: pd.DataFrame, value: str | None) -> Opened:
    """A table as it is, or the value of each run at the last step of a chart that W&B exports, with its curve."""
    steps, *columns = table.columns
    matches = [CHART.fullmatch(str(name)) for name in columns]
    if not matches or not all(matches) or not pd.api.types.is_numeric_dtype(table[steps]):
        return Opened(table, {}, [])
    logged: Logged = {}
    for name, match in zip(columns, matches, strict=True):
        if match and not match["metric"].endswith(BOUNDS) and match["metric"] != "_step":
            curve = table[[steps, name]].dropna().sort_values(steps, kind="stable").to_numpy(float)
            logged.setdefault(match["run"], {})[match["metric"]] = curve
    return of_curves(logged, value, by_step=str(steps).lower().endswith("step"))


def of_folder(path: Path, value: str | None) -> Opened:
    """The runs below a folder: finished runs of normexp, else one of each folder with events of TensorBoard."""
    if (found := find_runs(path)).finished:
        table = load_summaries(path, found=found)
        running = open_runs(path, {*table["hash"]}, found.unfinished)
        table = with_metric(table, path, value) if value and "/" in value else table
        notes = [f"left out: {pluralize(len(running), 'run')} not finished"] if running else []
        return Opened(table, {}, notes)
    folders = sorted({file.parent for file in path.rglob("events.out.tfevents*")})
    if not folders:
        raise ValueError(f"{path}: holds neither runs of normexp nor events of TensorBoard; check the name")
    every = {folder: scalars(folder) for folder in folders}
    inner = [  # such as that of add_hparams
        folder
        for folder, tags in every.items()
        if value and not any(tag.endswith(value) for tag in tags) and every.keys() & set(folder.parents)
    ]
    logged = {
        folder.relative_to(path).as_posix(): tags for folder, tags in every.items() if folder not in inner
    }
    opened = of_curves(logged, value)
    if inner:
        count = pluralize(len(inner), "folder")
        opened.notes.append(f"left out: {count} inside those of runs, without {value}")
    return opened


def scalars(folder: Path) -> dict[str, Curve]:
    """Tag -> its curve, of the events in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), {"scalars": 0, "tensors": 0}).Reload()
    tags = events.Tags()
    points = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags["scalars"]}
    for tag in tags["tensors"]:
        arrays = [(event.step, make_ndarray(event.tensor_proto)) for event in events.Tensors(tag)]
        if all(array.size == 1 and array.dtype.kind in "fiu" for _, array in arrays):
            points[tag] = [(step, array.item()) for step, array in arrays]
    return {tag: np.array(series, float) for tag, series in points.items()}


def of_curves(logged: Logged, value: str | None, *, by_step: bool = True) -> Opened:
    """The last value of each metric of each run, and its curve, unless it is one over time. Notes say how the names of
    runs were read, and which end early."""
    parts, rows = parted(logged), []
    for name, log in logged.items():
        last = {metric: curve[-1, 1] if len(curve) else np.nan for metric, curve in log.items()}
        rows.append({"arm": parts[name][0], "seed": parts[name][1], **last})
    table = pd.DataFrame(rows)
    parsed = [f"{name} is {arm}, seed {seed}" for name, (arm, seed) in parts.items() if seed is not None][:1]
    parsed += [f"{name} is an arm without a seed" for name, (_, seed) in parts.items() if seed is None][:1]
    notes = [f"seeds are read from the names of runs: {'; '.join(parsed)}"]
    if table["seed"].notna().any():  # a run without one pairs with none
        table["seed"] = [name if seed is None else seed for name, (_, seed) in parts.items()]
    value = value or next(iter(next(iter(logged.values()))), "")
    curves = {index: log[value] for index, log in enumerate(logged.values()) if value in log and by_step}
    ends = {index: curve[-1, 0] for index, curve in curves.items() if len(curve)}
    latest = max(ends.values(), default=0)
    if early := {index: end for index, end in ends.items() if end < latest}:
        first = min(early, key=early.__getitem__)
        notes.append(
            f"ended before step {latest:g}: {pluralize(len(early), 'run')} of {len(ends)},"
            f" {[*logged][first]} at {early[first]:g}; the last value of each counts, so leave out what was cut short"
        )
    return Opened(table, curves, notes)


def parted(names: Iterable[str]) -> dict[str, tuple[str, int | None]]:
    """Name of a run -> (arm, seed): `batchnorm/seed_3`, `bn-lr0.1-s3`, `ln_3`. Without a seed, None."""
    found: dict[str, tuple[str, int | None]] = {}
    for rank, pattern in enumerate(SEEDS):
        matches = {name: pattern.search(name) for name in names if name not in found}
        parts = {name: split(match) for name, match in matches.items() if match}
        counts = Counter(arm for arm, _ in parts.values())
        usual = {seed for arm, seed in parts.values() if counts[arm] > 1}
        found |= {name: (arm, seed) for name, (arm, seed) in parts.items() if not rank or seed in usual}
    return {name: found.get(name, (name, None)) for name in names}


def split(found: re.Match[str]) -> tuple[str, int]:
    """(the rest of a name, the number of its seed)."""
    name = found.string
    rest = re.sub(r"([-_/ ,])[-_/ ,]+", r"\1", name[: found.start()] + name[found.end() :]).strip("-_/ ,")
    return rest or name, int(next(filter(None, found.groups())))
