"""What a report says in words: the largest difference, where it was seen, what limits it, and its source."""

import math

import numpy as np
import pandas as pd

from normexp.counted import counted
from normexp.report.statistics import LEVEL
from normexp.report.study import Study, as_text, label
from normexp.report.tables import number
from normexp.runs.columns import OLDER
from normexp.runs.intervals import half_widths

WHERE = ("outputs=", "run_dir=", "data.root=", "hydra.")  # arguments that say where and how, but not what


def widened(table: pd.DataFrame) -> pd.DataFrame:
    """The paired differences to the baseline, with intervals that hold for all of them together (Bonferroni), in the
    columns low and high. The report picks the largest difference, so a 95% interval of it alone would be too narrow.
    """
    found = table[table["pairs"] > 1].copy()
    half = (found["difference_high"] - found["difference_low"]) / 2
    n = found["pairs"].to_numpy(dtype=float)
    wider = half_widths(1.0, n, 1 - (1 - LEVEL) / max(len(found), 1)) / half_widths(1.0, n, LEVEL)
    return found.assign(low=found["difference"] - half * wider, high=found["difference"] + half * wider)


def finding(study: Study, table: pd.DataFrame, baseline: str) -> str:
    """One or two sentences that claim no more than the intervals show."""
    rows = widened(table)
    if rows.empty:
        return f"No interval can be given: no arm has two seeds in common with {baseline}. {scope(study)}"
    clear = rows[(rows["low"] > 0) | (rows["high"] < 0)]
    seeds = counted(int(rows["pairs"].max()), "seed")
    many = f", wide enough for all {len(rows)} comparisons" if len(rows) > 1 else ""
    how = f"paired over {seeds}, 95% interval{many}"
    what = label(study.metric)
    if clear.empty:
        widest = number(float(np.maximum(-rows["low"], rows["high"]).max()), study.metric)
        return (
            f"No arm differs from {against(baseline)} in {what} beyond its interval; differences of up to "
            f"{widest}{points(study)} remain possible ({how}). {scope(study)}"
        )
    row = clear.loc[clear["difference"].abs().idxmax()]
    # From the smallest size to the largest.
    ends = sorted((abs(row["low"]), abs(row["high"])))
    low, high = (number(end, study.metric) for end in ends)
    word = "higher" if row["difference"] > 0 else "lower"
    at = f" at {label(study.x)} {row['level']:g}" if not math.isnan(row["level"]) else ""
    size = number(abs(row["difference"]), study.metric)
    more_or_less = f"{size}{points(study)} {word} than {against(baseline)}"
    first = f"{row['arm']}{at} has a {what} {more_or_less} ({low} to {high}; {how})."
    others = len(rows) - 1
    if others:
        more = len(clear) - 1
        verb = "excludes" if more == 1 else "exclude"
        first += f" Of the other {counted(others, 'difference')} to {against(baseline)}, {more} {verb} zero."
    return f"{first} {scope(study)}"


def against(baseline: str) -> str:
    """The baseline in a sentence."""
    return "the network without a norm" if baseline == "none" else baseline


def points(study: Study) -> str:
    """The unit of a difference."""
    return " points" if study.metric.endswith("accuracy") else ""


def scope(study: Study) -> str:
    """A sentence on where the difference was seen, and that other settings were not tried."""
    rows = study.summaries
    names = {
        "model": [str(name) for name in rows["model"].unique()],
        "data": [str(name) for name in rows["data"].unique()],
    }
    where = ", ".join(names["model"]) + " on " + ", ".join(names["data"])
    rate = (
        "each point at its best learning rate" if study.rate_varies
        else f"one learning rate ({rows['lr'].iloc[0]:g})" if rows["lr"].nunique() == 1 else "several learning rates"
    )  # fmt: skip
    return f"Seen with {where}, {rate}; other settings were not tried."


def source(study: Study) -> str:
    """Command, hash of the configuration and version, for every file and once for the page."""
    parts = [part for part in study.command.split(" ") if not part.startswith(WHERE)]
    command = " ".join(parts)
    return f"{command}  ·  configuration {study.digest}  ·  normexp {', '.join(study.versions)}"


def goes_with(study: Study, name: str, by: str) -> str:
    """A sentence on a value that differs between the arms or levels beside what names them."""
    values = study.summaries.groupby(by, sort=False)[name].first()
    each = "; ".join(f"{as_text(value)} with {as_text(of)}" for of, value in list(values.items())[:4])
    return f"{label(name).capitalize()} goes with {label(by)} ({each}), so a difference may be its doing."


def cautions(study: Study) -> list[str]:
    """The limits of the comparison, one sentence each."""
    found = []
    chosen = study.chosen
    seeds = chosen.groupby(["arm", *([study.x] if study.x else [])])["seed"].nunique()
    if seeds.min() < 2:
        found.append("Some points rest on a single seed and have no interval.")
    if seeds.min() != seeds.max():
        found.append(
            f"The points rest on unequal numbers of seeds, {seeds.min()} to {seeds.max()}: runs are missing."
        )
    levels = max(len(study.levels), 1)
    empty = len(study.arms) * levels - len(seeds)
    if empty:
        found.append(
            f"{empty} of {len(study.arms) * levels} combinations of arm and {label(study.x)} have no run."
        )
    if len(study.versions) > 1:
        found.append(f"The runs come from several versions of normexp: {', '.join(study.versions)}.")
    kinds = chosen["key"].map(lambda key: key[1]).unique()
    if len(kinds) > 1:
        found.append(
            f"The runs were computed in different ways ({'; '.join(kinds)}); only runs of one way are paired."
        )
    found += [goes_with(study, name, by) for name, by in study.goes_with.items()]
    if before := int((study.summaries["recipe"] == OLDER).sum()):
        found.append(
            f"{before} {'run was' if before == 1 else 'runs were'} trained before models had recipes: what they left "
            "to the defaults is recipe=plain today."
        )
    lost = int((chosen["status"] == "diverged").sum())
    if lost:
        found.append(
            f"{lost} {'run' if lost == 1 else 'runs'} diverged. Means are over the others, so they flatter the arms "
            "that diverge."
        )
    return found
