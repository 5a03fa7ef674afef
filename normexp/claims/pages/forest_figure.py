"""The figure of a claim over several settings: the effect in each, their mean, and the range for one more setting."""

import math
import textwrap
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normexp.claims.judge.verdict_text import describe_effect, title
from normexp.claims.pages.claim_figure import DEPENDS_COLOR, WORD_COLORS

SHOWN = "#999999"  # a setting that does not vote
PAPER = "#332288"


def draw_forest(verdict: dict[str, Any], path: Path) -> None:
    """Write the figure. `path` ends in .png."""
    rows = verdict["settings"]
    figure = Figure(figsize=(8.5, 1.9 + 0.3 * (len(rows) + 2)), layout="constrained")
    ax = figure.subplots()
    margin = verdict["comparison"].get("margin", 0.0)
    ax.axvspan(-margin, margin, color="#eeeeee", linewidth=0)
    ax.axvline(0, color="black", linewidth=0.8)
    names = []
    for y, row in enumerate(rows):
        names.append(_name(row))
        if row["effect"] is None:
            ax.text(0, y, row["flag"], va="center", ha="center", fontsize=8, color=SHOWN)
        else:
            _interval(ax, y, row, WORD_COLORS[row["verdict"]] if row["votes"] else SHOWN, voting=row["votes"])
    names.append("mean over settings")
    _mean(ax, len(rows), verdict)
    if paper := (verdict.get("paper_effect") or {}).get("effect"):
        ax.plot(
            [paper],
            [len(rows)],
            "*",
            color=PAPER,
            markersize=11,
            label=f"paper, {verdict['paper_effect']['size']}",
        )
    left, right = _limits(verdict)
    ax.set_xlim(left, right)
    _arrows(ax, verdict, left, right)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(rows) + 0.6, -0.6)
    ax.set_xlabel(
        f"{describe_effect(verdict['comparison']).removesuffix(' =')}; gray: too small to matter", fontsize=8
    )
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    color = WORD_COLORS.get(verdict["verdict"], DEPENDS_COLOR)
    heading = "\n".join(textwrap.wrap(title(verdict), 100))
    figure.suptitle(heading, color=color, fontweight="bold", fontsize=10)
    ax.set_title("\n".join(textwrap.wrap(verdict["sentence"], 80, break_on_hyphens=False)), fontsize=9)
    figure.savefig(path, dpi=110)


def _name(row: dict[str, Any]) -> str:
    failures = row["failures"]
    lost = failures["arm"] + (failures["baseline"] or 0)
    told = row["effect"] is None  # the flag stands where the effect would be
    name = row["name"] + (f", {row['flag']}" if row["flag"] and not told else "")
    return f"{name} ({lost} failed)" if lost else name


def _interval(ax: Axes, y: int, row: dict[str, Any], color: str, *, voting: bool) -> None:
    low, high = row["interval"]
    if math.isfinite(low) and math.isfinite(high):
        ax.plot([low, high], [y, y], color=color, linewidth=2, alpha=1.0 if voting else 0.6)
    ax.plot([row["effect"]], [y], "o", color=color, fillstyle="full" if voting else "none")


def _mean(ax: Axes, y: int, verdict: dict[str, Any]) -> None:
    color = WORD_COLORS.get(verdict["verdict"], DEPENDS_COLOR)
    if math.isfinite(verdict["effect"]):
        (low, high), (first, last) = verdict["interval"], verdict["prediction"]
        if math.isfinite(first):
            ax.plot(
                [first, last], [y, y], color=color, linewidth=1, label="one more setting, if drawn like these"
            )
        ax.fill([low, verdict["effect"], high, verdict["effect"]], [y, y - 0.25, y, y + 0.25], color=color,
                label=f"mean, {verdict['level']:.4g} interval")  # fmt: skip


def _limits(verdict: dict[str, Any]) -> tuple[float, float]:
    """The ends of the axis, by which wide intervals of single settings do not squeeze the others."""
    effects = [row["effect"] for row in verdict["settings"] if row["effect"] is not None]
    ends = [
        end for end in (*verdict["interval"], *verdict["prediction"], *effects, 0.0) if math.isfinite(end)
    ]
    room = 0.25 * (max(ends) - min(ends)) or 1.0
    return min(ends) - room, max(ends) + room


def _arrows(ax: Axes, verdict: dict[str, Any], left: float, right: float) -> None:
    """Show where an interval goes on beyond the axis."""
    for y, row in enumerate(verdict["settings"]):
        low, high = row["interval"] or (left, right)
        color = WORD_COLORS[row["verdict"]] if row["votes"] else SHOWN
        for marker, end, cut in (("<", left, low < left), (">", right, high > right)):
            if cut:
                ax.plot([end], [y], marker, color=color, markersize=7, clip_on=False)
