"""The comparison as a table: mean, interval, number of seeds, and the paired difference to a baseline."""

import html
import math
import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from normexp.format import pluralize
from normexp.report.statistics import Estimate
from normexp.report.study import Study, label
from normexp.runs.table import FEWEST_FOR_INTERVAL, FEWEST_SEEDS

TOGETHER = "with 95% intervals that hold for all differences between arms together"
HALF_A_THOUSANDTH = 5e-4
SPECIAL = re.compile(r"[\\`*\[\]|$~]|(?<!\w)_|_(?!\w)|^[#>+-]")


def baselines(study: Study, requested: str | None = None) -> dict[str, str]:
    """Arm -> the arm to compare it with: the requested one; else of several models or other choices the arm without a
    norm, or the first, with the same choice; else that of all."""
    if requested is not None and requested not in study.arms:
        raise ValueError(f"baseline={requested}: no arm of this study; choose from {', '.join(study.arms)}")
    rests = {arm: arm.partition(" · ")[2] for arm in study.arms}
    if len({*rests.values()}) == len(rests):  # nothing is like anything
        rests = dict.fromkeys(rests, "")

    def first(arm: str) -> str:
        like = [other for other in study.arms if rests[other] == rests[arm]]
        return next((other for other in like if other.startswith("none")), like[0])

    return {arm: requested or first(arm) for arm in study.arms}


def comparison(study: Study, baseline: str | None = None) -> pd.DataFrame:
    """One row per arm and level: arm, level, runs, failed, mean, low, high, n, the paired difference to the baseline
    (baseline, difference, difference_low, difference_high, pairs), and `best`. Where there are too few seeds for an
    interval, `few` and `difference_few` have the values.

    The intervals of differences hold for all differences between arms together. An arm is best at a level if it is
    better than each other arm of its network there by those intervals, over at least five seeds, and none of its runs
    failed.
    """
    rows, against = [], baselines(study, baseline)
    for level in study.levels:
        for arm in study.arms:
            runs = study.at(arm, level)
            difference = study.difference(arm, against[arm], level)
            failed = int(runs["failed"].sum())
            others = [
                study.difference(arm, other, level) for other in study.arms
                if other != arm and study.network[other] == study.network[arm] and len(study.points[other, level].keys)
            ]  # fmt: skip
            row = {
                "arm": arm, "level": level if study.x else math.nan, "runs": len(runs), "failed": failed,
                **study.points[arm, level].mean()._asdict(), "baseline": against[arm], "difference": difference.mean,
                "difference_low": difference.low, "difference_high": difference.high, "pairs": difference.n,
                "difference_few": difference.few,
                "best": bool(others and all(is_better(study, other) for other in others) and not failed),
                "lr": runs["lr"].iloc[0] if len(runs) else math.nan,
            }  # fmt: skip
            rows.append(row)
    return pd.DataFrame(rows)


def is_better(study: Study, difference: Estimate) -> bool:
    """Whether a difference shows that its first arm is better, by its interval and enough seeds."""
    clear = difference.low > 0 if study.higher_is_better else difference.high < 0
    return clear and difference.n >= FEWEST_SEEDS


def number(value: float, study: Study, *, signed: bool = False) -> str:
    """An accuracy as a percentage with one decimal, a loss with three; two digits where these would all be 0."""
    if math.isnan(value):
        return "–"
    sign = "+" if signed else ""
    if study.metric.endswith("accuracy"):
        text = f"{100 * value if study.of_shares else value:{sign}.1f}"
    else:
        text = f"{value:{sign}{'.2g' if 0 < abs(value) < HALF_A_THOUSANDTH else '.3f'}}"
    return text.replace("-", "−")


def interval_text(mean: float, low: float, high: float, study: Study) -> str:
    """`± 1.2`, or both ends where a bound such as 100% cuts one; empty without an interval."""
    if math.isnan(low):
        return ""
    if math.isclose(mean - low, high - mean, rel_tol=1e-6, abs_tol=1e-12):
        return f"± {number(high - mean, study)}"
    return f"[{number(low, study)}, {number(high, study)}]"


def cells_of(study: Study, table: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Arm -> its cells in parts: value, interval, difference, n, failed and rate (where it was tuned) as text, best."""
    cells: dict[str, list[dict[str, Any]]] = {}
    for _, row in table.iterrows():
        parts = ("difference", "difference_low", "difference_high")
        difference, *ends = (number(row[part], study, signed=True) for part in parts)
        difference += "" if math.isnan(row["difference_low"]) else f" [{', '.join(ends)}]"
        each = [number(value, study, signed=True) for value in row["difference_few"]]
        interval = interval_text(row["mean"], row["low"], row["high"], study)
        if len(row["few"]) > 1:
            interval = f"({', '.join(number(value, study) for value in row['few'])})"
        cell = {
            "value": number(row["mean"], study),
            "interval": interval,
            "difference": (", ".join(each) or difference) if row["pairs"] else "",
            "n": f"n={row['n']}" if row["runs"] else "no run",
            "failed": f"{row['failed']} of {row['runs']} failed" if row["failed"] else "",
            "rate": f"lr {row['lr']:g}" if study.rate_varies and row["runs"] else "",
            "best": bool(row["best"]),
        }
        cells.setdefault(row["arm"], []).append(cell)
    return cells


def in_words(cell: dict[str, Any], *, rate: bool = True) -> str:
    """`95.6 ± 1.8`, with the number of failed runs, and the learning rate where it was tuned."""
    failed = f"({cell['failed']})" if cell["failed"] else ""
    return " ".join(filter(None, (cell["value"], cell["interval"], failed, cell["rate"] if rate else "")))


def emphasized(cell: dict[str, Any]) -> str:
    """A cell without its rate; `**95.6**` of the best arm."""
    text = in_words(cell, rate=False)
    return f"**{text}**" if cell["best"] else text


def heads(study: Study, over: str = "\\") -> list[str]:
    """The heads of the columns: the norm `over` the factor, and its levels; or the metric where there is no factor."""
    if not study.x:
        return ["norm", label(study.metric)]
    return [f"norm {over} {label(study.x)}", *(f"{level:g}" for level in study.levels)]


def markdown(study: Study, table: pd.DataFrame) -> str:
    """The table for a paper or a README: one row per arm, one column per level; and that of the paired differences."""
    baseline = dict(zip(table["arm"], table["baseline"], strict=True))
    _, *levels = names = list(map(plain, heads(study)))
    head = [names, ["---", *("---:" for _ in levels)]]
    values, differences = [*head], [*head]
    for arm, cells in cells_of(study, table).items():
        values.append([plain(arm), *map(emphasized, cells)])
        if arm != baseline[arm]:
            differences.append([plain(arm), *(cell["difference"] or "no pair" for cell in cells)])
    first, second = grid(values), grid(differences)
    heading = f"Paired difference to {plain(of_what(table))} over equal seeds, {TOGETHER}:"
    return f"{first}\n\n{plain(how_to_read(study, table))}\n\n{heading}\n\n{second}"


def grid(rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells as lines of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def of_what(table: pd.DataFrame) -> str:
    """The baseline in a sentence; where arms have several, the table says which each has."""
    names = table["baseline"].unique()
    return names[0] if len(names) == 1 else f"the baseline beside it ({', '.join(names)})"


def how_to_read(study: Study, table: pd.DataFrame) -> str:
    """Sentences that explain the numbers of the comparison's table."""
    counts = table["n"][table["n"] > 0]
    what = f"{label(study.metric).capitalize()}{' in %' if study.metric.endswith('accuracy') else ''}"
    bold = " Bold: better than every other arm there, by paired intervals that hold for all differences together."
    bold = bold if table["best"].any() else ""
    if counts.empty:
        return f"{what}: no run has a value."
    if (most := counts.max()) == 1:
        return f"{what}: of one seed, so without an interval.{bold}"
    if most < FEWEST_FOR_INTERVAL:
        return f"{what}: mean over {most} seeds, each in brackets. Fewer than {FEWEST_FOR_INTERVAL} have no interval."
    return f"{what}: mean and 95% interval over {how_many(counts)}{over_examples(study)}.{bold}"


def how_many(seeds: Iterable[int]) -> str:
    """`5 seeds`, or `5 to 9 seeds` where not all have the same number."""
    low, high = min(seeds), max(seeds)
    return pluralize(high, "seed") if low == high else f"{low} to {high} seeds"


def over_examples(study: Study) -> str:
    """` and 360 test examples`, where the intervals count them."""
    sizes = sorted({len(point.examples[0]) for point in study.points.values() if point.examples is not None})
    return f" and {' to '.join(map(str, sizes))} test examples" if sizes else ""


def plain(text: str) -> str:
    """One line of Markdown that shows `text` unchanged, even in a table: no HTML, no link, no formula."""
    line = " ".join(text.split())
    return html.escape(SPECIAL.sub(r"\\\g<0>", line), quote=False)


def fenced(text: str) -> str:
    """A block of code. Its fence is longer than any in the text. Tags are escaped, for readers that know no fences."""
    if "<" in text:
        return f"<pre><code>{html.escape(text, quote=False)}\n</code></pre>"
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
