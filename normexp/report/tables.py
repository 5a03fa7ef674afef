"""The comparison as a table: mean, interval, number of seeds, and the paired difference to a baseline."""

import html
import math
import re

import pandas as pd

from normexp.report.statistics import Estimate, clear_best, estimate, paired_difference
from normexp.report.study import Study, label

SPECIAL = re.compile(r"[\\`*\[\]|$~]|(?<!\w)_|_(?!\w)|^[#>+-]")


def choose_baseline(study: Study, asked: str | None) -> str:
    """The arm to compare the others with: the requested one, else one without a norm, else the first."""
    if asked is None:
        return next((arm for arm in study.arms if arm.split(" · ")[0] == "none"), study.arms[0])
    if asked not in study.arms:
        raise ValueError(f"baseline={asked}: no arm of this study; choose from {', '.join(study.arms)}")
    return asked


def comparison(study: Study, baseline: str) -> pd.DataFrame:
    """One row per arm and level: arm, level, runs, diverged, mean, low, high, n, the paired difference to the baseline
    (difference, difference_low, difference_high, pairs), and `best`: the intervals of the arm's paired differences to
    all other arms at this level exclude 0. Without an interval no arm is best, and an arm with diverged runs never is.
    """
    rows = []
    for level in study.levels or [math.nan]:
        here = {arm: study.at(arm, level) for arm in study.arms}
        values = {arm: finals(here[arm], study.metric) for arm in study.arms}
        whole = {
            arm: found
            for arm, found in values.items()
            if found and (here[arm]["status"] == "completed").all()
        }
        signed = (
            whole
            if study.higher_is_better
            else {a: {k: -v for k, v in vs.items()} for a, vs in whole.items()}
        )
        best = clear_best(signed)
        for arm in study.arms:
            runs = here[arm]
            mean = estimate(list(values[arm].values()))
            difference = (
                Estimate(math.nan, math.nan, math.nan, 0)
                if arm == baseline
                else paired_difference(values[arm], values[baseline])
            )
            diverged = int((runs["status"] == "diverged").sum())
            rows.append(
                {
                    "arm": arm, "level": level, "runs": len(runs), "diverged": diverged, **mean._asdict(),
                    "difference": difference.mean, "difference_low": difference.low,
                    "difference_high": difference.high, "pairs": difference.n, "best": arm == best,
                    "lr": runs["lr"].iloc[0] if len(runs) else math.nan,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def finals(runs: pd.DataFrame, metric: str) -> dict[tuple, float]:
    """Final values of the runs that have one, by seed and kind of execution, which pair runs."""
    runs = runs[runs["status"] == "completed"].dropna(subset=[metric])
    return dict(zip(runs["key"], runs[metric], strict=True))


def number(value: float, metric: str, *, signed: bool = False) -> str:
    """An accuracy as a percentage with one decimal, a loss with three."""
    if math.isnan(value):
        return "–"
    sign = "+" if signed else ""
    text = f"{100 * value:{sign}.1f}" if metric.endswith("accuracy") else f"{value:{sign}.3f}"
    return text.replace("-", "−")


def cell_text(row: pd.Series, metric: str) -> dict[str, str]:
    """The parts of a cell: value, interval, difference and remarks."""
    value = number(row["mean"], metric)
    half = row["high"] - row["mean"]
    interval = "" if math.isnan(half) else f"± {number(half, metric)}"
    difference = ""
    if row["pairs"]:
        low, high = (number(row[f"difference_{end}"], metric, signed=True) for end in ("low", "high"))
        between = f" [{low}, {high}]" if row["pairs"] > 1 else ""
        difference = f"{number(row['difference'], metric, signed=True)}{between}"
    remarks = [f"n={row['n']}"] if row["runs"] else ["no run"]
    if row["diverged"]:
        remarks.append(f"{row['diverged']} of {row['runs']} diverged")
    return {"value": value, "interval": interval, "difference": difference, "remarks": ", ".join(remarks)}


def markdown(study: Study, table: pd.DataFrame, baseline: str) -> str:
    """The table for a paper or a README: one row per arm, one column per level."""
    levels = study.levels or [math.nan]
    heads = [f"{level:g}" if study.x else plain(label(study.metric)) for level in levels]
    corner = f"norm \\\\ {plain(label(study.x))}" if study.x else "norm"
    lines = [f"| {corner} | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for arm, rows in table.groupby("arm", sort=False):
        cells = []
        for _, row in rows.iterrows():
            text = cell_text(row, study.metric)
            shown = f"{text['value']} {text['interval']}".strip()
            shown = f"**{shown}**" if row["best"] else shown
            cells.append(
                shown + (f" ({row['diverged']} of {row['runs']} diverged)" if row["diverged"] else "")
            )
        lines.append(f"| {plain(arm)} | {' | '.join(cells)} |")
    lines += ["", plain(how_to_read(study, table))]
    return "\n".join([*lines, "", *differences_markdown(table, study.metric, baseline, lines[0])])


def differences_markdown(table: pd.DataFrame, metric: str, baseline: str, head: str) -> list[str]:
    """The paired differences to the baseline, in a table with the same columns."""
    lines = [f"Paired difference to {plain(baseline)} over equal seeds, with its 95% interval:", "", head]
    lines.append(f"|---|{'---:|' * (head.count('|') - 2)}")
    for arm, rows in table[table["arm"] != baseline].groupby("arm", sort=False):
        cells = [cell_text(row, metric)["difference"] or "no pair" for _, row in rows.iterrows()]
        lines.append(f"| {plain(arm)} | {' | '.join(cells)} |")
    return lines


def how_to_read(study: Study, table: pd.DataFrame) -> str:
    """Sentences that explain the numbers of the comparison's table."""
    seeds = study.chosen.groupby(["arm", *([study.x] if study.x else [])])["seed"].nunique()
    count = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    unit = " in %" if study.metric.endswith("accuracy") else ""
    place = f"at this {label(study.x)}" if study.x else "of the study"
    bold = (
        f" Bold: better than every other arm {place}, by paired intervals over seeds that exclude 0."
        if table["best"].any()
        else ""
    )
    return f"{label(study.metric).capitalize()}{unit}: mean ± half of the 95% t interval over {count} seeds.{bold}"


def plain(text: str) -> str:
    """One line of Markdown that shows `text` unchanged, even in a table: no HTML, no link, no formula."""
    line = " ".join(text.split())
    return html.escape(SPECIAL.sub(r"\\\g<0>", line), quote=False)


def fenced(text: str) -> str:
    """A block of code. Its fence is longer than any fence in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
