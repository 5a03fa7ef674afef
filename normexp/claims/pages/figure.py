"""The figure of a claim: in one setting the values of every seed beside the effect, over several a forest plot."""

import math
import textwrap
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from normexp.claims.judge.comparison import EQUAL, TRENDS
from normexp.claims.judge.effect_words import SHARES
from normexp.claims.judge.plain_words import title, with_arm_words
from normexp.claims.pages import save_figure
from normexp.report.drawing import new_figure
from normexp.report.style import INK, Style, shorten

KINDS = {"supported": "for", "no counterexample": "for", "holds here": "for", "refuted": "against"}
COLORS = {"for": "#009e73", "against": "#d55e00", "open": "#666666", "aside": "#999999", "paper": "#332288"}
MOST_NAMED = 40  # rows; of more, single settings stand close together and have no names
CLOSE = 0.35  # the height of such a row, as a share of another's


class Line(NamedTuple):
    """A row of a forest plot. `ends` are those of the interval. `kind` is a key of `COLORS`, with "mean" before it for
    a mean. Effects within the `margin` are too small to matter."""

    name: str
    effect: float
    ends: tuple[float, float]
    kind: str
    margin: float = 0.0


def lines_of(verdict: dict[str, Any]) -> list[Line]:
    """A row per setting, the median of drawn ones, and the paper's effect. A verdict from one setting has one effect.
    Bars of settings are one standard error over seeds. With several comparisons the effects are those of the first,
    as are the colors."""
    lines, comparison = [], verdict.get("comparison") or {}
    for row in verdict["settings"]:
        if row["number"] is None:
            lines.append(Line(row["name"], math.nan, (math.nan, math.nan), "aside", row["margin"]))
            continue
        size, error = float(row["number"]), float(row["error"])
        half = 0.0 if math.isnan(error) else error
        against = "open" if comparison.get("kind") in EQUAL or row["side"] != "opposite" else "against"
        kind = "for" if row["holds"] else against
        lines.append(Line(row["name"], size, (size - half, size + half), kind, row["margin"]))
    lines.sort(key=lambda line: (math.isnan(line.effect), line.effect))
    margin = lines[0].margin if lines else float(comparison.get("margin") or 0.0)
    if verdict["effect"] is not None:
        name = "median of settings" if lines else "this setting"
        lines.append(summary(name, verdict, margin)._replace(kind=f"mean {kind_of(verdict)}"))
    paper = verdict.get("paper_effect") or {}
    if paper.get("effect") is not None:
        size = float(paper["effect"])
        lines.append(Line("the paper", size, (size, size), "paper", margin))
    return lines


def kind_of(verdict: Mapping[str, Any]) -> str:
    """Whether its word is for the sentence, against it, or leaves it open."""
    return KINDS.get(verdict["verdict"], "open")


def summary(name: str, row: Mapping[str, Any], margin: float) -> Line:
    """The effect and interval of a verdict, or of a comparison in one setting; JSON has infinities as text."""
    effect, low, high = map(float, (row["effect"], *row["interval"]))
    return Line(name, effect, (low, high), kind_of(row), margin)


def limits(lines: list[Line]) -> tuple[float, float]:
    """The ends of the axis without its room, by which wide intervals of single settings do not squeeze the others."""
    shown = [value for line in lines for value in (line.effect, -line.margin, line.margin)]
    shown += [end for line in lines if line.kind.startswith("mean") for end in line.ends]
    finite = [value for value in (*shown, 0.0) if math.isfinite(value)]
    return min(finite), max(finite)


def places_of(lines: list[Line]) -> tuple[list[float], list[float]]:
    """Where each row of a forest plot stands, and its height. A row with a name has a height of 1."""
    summaries = ("mean", "paper")
    with_name = [len(lines) <= MOST_NAMED or line.kind.startswith(summaries) for line in lines]
    heights = [1.0 if has_name else CLOSE for has_name in with_name]
    return [top - height / 2 for top, height in zip(accumulate(heights), heights, strict=True)], heights


def draw(table: pd.DataFrame, verdict: dict[str, Any], path: Path) -> None:
    """Write the figure. `path` ends in .png. `table` is the evidence of a verdict from one setting."""
    verdict = with_arm_words(verdict)
    if verdict["settings"]:
        lines, width = lines_of(verdict), 85
        figure, (axes,) = new_figure(1, panel=(8.5, 2.2 + 0.3 * sum(places_of(lines)[1])))
        draw_forest(axes, lines, verdict)
        about = f"{units_of_effect(verdict)}; bars: one standard error; gray: too small to matter"
        axes.set_xlabel(textwrap.fill(about, 100), fontsize=8)
    else:
        judged = [item for item in verdict["comparisons"] if item["comparison"]["kind"] != "every"]
        ratios, panel, width = ((3, 2), (5, 4.6), 105) if judged else ((1,), (7, 4.6), 75)
        figure, columns = new_figure(len(ratios), len(ratios), panel=panel, width_ratios=ratios)
        draw_values(columns[0], table, verdict)
        if judged:
            draw_forest(columns[1], [_line_of(item) for item in judged], verdict)
            level = f"{100 * verdict['level']:.4g}%"
            columns[1].set_title(f"effect and {level} interval; gray: too small to matter", fontsize=9)
            columns[1].set_xlabel(textwrap.fill(units_of_effect(verdict), 48), fontsize=9)
    heading = "\n".join(textwrap.fill(text, width) for text in (verdict["sentence"], title(verdict)))
    figure.suptitle(heading, color=COLORS[kind_of(verdict)], fontweight="bold", fontsize=11)
    save_figure(figure, path, dpi=110)


def _line_of(item: dict[str, Any]) -> Line:
    """A comparison in one setting."""
    comparison = item["comparison"]
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else "")
    level = f" at {comparison['at']}" if "at" in comparison else ""
    name = f"{comparison['arm']}{level}" + (f"\nminus {against}" if against else "")
    return summary(name, item, comparison.get("margin", 0.0))


def draw_forest(axes: Axes, lines: list[Line], verdict: dict[str, Any]) -> None:
    """Effects with their intervals, one below the other. Bars that reach the edge go on."""
    first = (verdict.get("comparisons") or [{}])[0].get("comparison") or {}
    low, high = limits(lines)
    room = 0.1 * (high - low) or 1.0
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlim(low - room, high + room)
    places, heights = places_of(lines)
    for y, height, line in zip(places, heights, lines, strict=True):
        kind, close = line.kind.removeprefix("mean "), height < 1
        mean, color, edges = kind != line.kind, COLORS[kind], [y - height / 2, y + height / 2]
        axes.fill_betweenx(edges, -line.margin, line.margin, color="#e6e6e6", linewidth=0)
        if math.isnan(line.effect):  # in the middle, wherever 0 is
            where: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "center"}
            axes.text(0.5, y, "no number: runs failed", fontsize=7, color=color, **where)
            continue
        ends = [max(min(end, 1e300), -1e300) for end in line.ends]
        axes.plot(ends, [y, y], color=color, linewidth=4 if mean else 1 if close else 2)
        axes.plot([line.effect], [y], "D" if mean else "o", color=color, markersize=3 if close else 6,
                  fillstyle="none" if kind == "aside" else "full")  # fmt: skip
    labels = [(y, shorten(line.name)) for y, h, line in zip(places, heights, lines, strict=True) if h == 1]
    axes.set_yticks([y for y, _ in labels], [name for _, name in labels], fontsize=8)
    if close_together := heights.count(CLOSE):
        axes.set_ylabel(f"{close_together} settings", fontsize=8)
    axes.set_ylim(sum(heights) + 0.1, -0.1)
    axes.grid(axis="y", visible=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    if first.get("log"):
        axes.xaxis.set_major_formatter(lambda value, _: f"×{math.exp(value):.2g}")
    elif verdict["measure"].startswith(SHARES):
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}")


def draw_values(axes: Axes, table: pd.DataFrame, verdict: dict[str, Any]) -> None:
    """The value of each arm over the factor's levels, or one column per arm. Every seed is a point."""
    levels, arms = list(dict.fromkeys(table["factor"])), list(dict.fromkeys(table["arm"]))
    numeric = all(isinstance(level, int | float) for level in levels)
    by_arm, colors = len(levels) == 1, Style(arms).color
    finite = table[table["value"].map(math.isfinite)]
    for index, arm in enumerate(arms):
        rows, color = finite[finite["arm"] == arm], colors[arm]
        if len(rows) < (table["arm"] == arm).sum():  # a cross below the axis for nan, infinite or diverged
            axes.plot(index if by_arm else 0, -0.02, "x", color=color, clip_on=False,
                      transform=axes.get_xaxis_transform())  # fmt: skip
        if rows.empty:
            continue
        places = rows["factor"] if numeric else rows["factor"].map(levels.index)
        means = rows["value"].groupby(places).mean()
        if by_arm:
            axes.plot(index + aside(rows["value"]), rows["value"], "o", color=color, alpha=0.45, markersize=4)
            axes.plot([index], means, "_", color=color, markersize=22)
        else:
            axes.plot(places, rows["value"], "o", color=color, alpha=0.45, markersize=4, markeredgewidth=0)
            axes.plot(means.index, means, "-" if numeric else "_", color=color, label=arm, markersize=12)
    if by_arm:
        axes.set_xticks(range(len(arms)), arms, rotation=20 if len(arms) > 3 else 0)
        axes.set_xlim(-0.6, len(arms) - 0.4)
    elif numeric:
        if min(levels) > 0 and max(levels) / min(levels) >= 8:
            axes.set_xscale("log")
        axes.set_xticks(levels, [f"{level:g}" for level in levels])
        axes.minorticks_off()
    else:
        axes.set_xticks(range(len(levels)), levels, rotation=25, ha="right")
    if len(arms) > 1 and not by_arm:
        axes.legend(frameon=False, fontsize=8)
    if (finite["value"] > 0).all() and len(finite) and finite["value"].max() / finite["value"].min() > 50:
        axes.set_yscale("log")
    axes.set_ylabel(textwrap.fill(verdict["measure"], 40), fontsize=9)
    axes.set_title("every seed, and the mean", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def aside(values: pd.Series) -> pd.Series:
    """How far each point stands aside of its column, so that none hides another of its value."""
    place = values.groupby(values).cumcount()
    return 0.05 * (place - (values.groupby(values).transform("size") - 1) / 2)


def units_of_effect(verdict: dict[str, Any]) -> str:
    """What the axis of effects counts."""
    first, measure = verdict["comparisons"][0]["comparison"], verdict["measure"]
    points = ", in points" * measure.startswith(SHARES)
    if first["kind"] in TRENDS:
        return f"change of {measure} over the factor"
    if first.get("log"):
        return f"ratio of {measure}"
    return f"{'difference in ' if first.get('baseline') or first.get('target') else ''}{measure}{points}"
