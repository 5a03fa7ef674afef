"""The figure of a claim: the values of every seed, and the effect against the smallest one that matters."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from normexp.claims.judge.comparison import TRENDS
from normexp.claims.judge.verdict_text import title

WORD_COLORS = {
    "supported": "#009e73",
    "no counterexample": "#009e73",
    "refuted": "#d55e00",
    "varies across settings": "#cc79a7",
    "inconclusive": "#666666",
}
DEPENDS_COLOR = "#cc79a7"


def draw(table: pd.DataFrame, verdict: dict[str, Any], path: Path, colors: Mapping[str, str]) -> None:
    """Write the figure. `path` ends in .png. `colors` has one color per arm."""
    universal = all(item["comparison"]["kind"] == "every" for item in verdict["comparisons"])
    figure = Figure(figsize=(10, 4.6) if not universal else (7, 4.6), layout="constrained")
    axes = figure.subplots(
        1, 1 if universal else 2, squeeze=False, width_ratios=None if universal else (3, 2)
    )[0]
    draw_values(axes[0], table, verdict, colors)
    if not universal:
        draw_effects(axes[1], verdict)
    sentence = textwrap.fill(verdict["sentence"], 105 if not universal else 75)
    figure.suptitle(
        f"{sentence}\n{textwrap.fill(title(verdict), 100)}",
        color=WORD_COLORS.get(verdict["verdict"], DEPENDS_COLOR),
        fontweight="bold",
        fontsize=11,
    )
    figure.savefig(path, dpi=110)


def draw_values(ax, table: pd.DataFrame, verdict: dict[str, Any], colors: Mapping[str, str]) -> None:
    """The value of each arm over the factor's levels, or one column per arm. Every seed is a point."""
    numeric = pd.api.types.is_numeric_dtype(table["factor"]) or all(
        isinstance(level, (int, float)) for level in table["factor"]
    )
    levels = list(dict.fromkeys(table["factor"]))
    arms = list(dict.fromkeys(table["arm"]))
    by_arm = len(levels) == 1
    for index, arm in enumerate(arms):
        own = table[table["arm"] == arm]
        rows = own[own["value"].map(math.isfinite)]
        if len(rows) < len(own):  # a cross below the axis for nan, infinite or diverged
            ax.plot(index if by_arm else 0, -0.02, "x", color=colors[arm], clip_on=False,
                    transform=ax.get_xaxis_transform())  # fmt: skip
        if rows.empty:
            continue
        color = colors[arm]
        if by_arm:
            x = list(index + aside(rows["value"]))  # seeds of equal values side by side
        else:
            x = list(rows["factor"]) if numeric else [levels.index(level) for level in rows["factor"]]
        ax.plot(x, rows["value"], "o", color=color, alpha=0.45, markersize=4, markeredgewidth=0)
        means = rows.groupby("factor", sort=False)["value"].mean()
        if not by_arm:
            places = means.index if numeric else [levels.index(level) for level in means.index]
            ax.plot(places, means, "-" if numeric else "_", color=color, label=arm, markersize=12)
        else:
            ax.plot([index], means, "_", color=color, markersize=22)
    if by_arm:
        ax.set_xticks(range(len(arms)), arms, rotation=20 if len(arms) > 3 else 0)
        ax.set_xlim(-0.6, len(arms) - 0.4)
    elif numeric:
        set_numeric_scale(ax, [float(level) for level in levels])
    else:
        ax.set_xticks(range(len(levels)), levels, rotation=25, ha="right")
    if len(arms) > 1 and not by_arm:
        ax.legend(frameon=False, fontsize=8)
    values = table["value"][table["value"].map(math.isfinite)]
    if (values > 0).all() and len(values) and values.max() / values.min() > 50:
        ax.set_yscale("log")
    ax.set_ylabel(_wrapped(verdict["measure"], 40), fontsize=9)
    ax.set_title("every seed, and the mean", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def aside(values: pd.Series) -> pd.Series:
    """How far each point stands aside of its column, so that none hides another."""
    place = values.groupby(values).cumcount()
    return 0.05 * (place - (values.groupby(values).transform("size") - 1) / 2)


def units_of_effect(verdict: dict[str, Any]) -> str:
    """What the axis of effects counts."""
    first = verdict["comparisons"][0]["comparison"]
    if first["kind"] in TRENDS:
        return f"change of {verdict['measure']} over the factor"
    kind = "logarithm of the ratio" if first.get("log") else "difference"
    return f"{kind} in {verdict['measure']}"


def set_numeric_scale(ax, levels: list[float]) -> None:
    """Ticks at the levels, and a logarithmic axis if they span a factor of eight."""
    if min(levels) > 0 and max(levels) / min(levels) >= 8:
        ax.set_xscale("log")
    ax.set_xticks(levels, [f"{level:g}" for level in levels])
    ax.minorticks_off()


def draw_effects(ax, verdict: dict[str, Any]) -> None:
    """Intervals of all comparisons. Effects within the shaded band are too small to matter."""
    judged = [item for item in verdict["comparisons"] if item["comparison"]["kind"] != "every"]
    for y, item in enumerate(judged):
        low, high = item["interval"]
        color = WORD_COLORS[item["verdict"]]
        margin = item["comparison"].get("margin", 0.0)
        ax.fill_betweenx([y - 0.4, y + 0.4], -margin, margin, color="#dddddd", linewidth=0)
        if math.isfinite(low) and math.isfinite(high):
            ax.plot([low, high], [y, y], color=color, linewidth=3)
        if math.isfinite(item["effect"]):
            ax.plot([item["effect"]], [y], "o", color=color)
    ax.axvline(0, color="black", linewidth=0.8)
    names = [_label(item["comparison"]) for item in judged]
    ax.set_yticks(range(len(judged)), names, fontsize=8)
    ax.set_ylim(-0.7, len(judged) - 0.3)
    ax.set_title(f"effect and {100 * verdict['level']:.4g}% interval; gray: too small to matter", fontsize=9)
    ax.set_xlabel(_wrapped(units_of_effect(verdict), 48), fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def _label(comparison: dict[str, Any]) -> str:
    at = f" at {comparison['at']}" if "at" in comparison else ""
    against = comparison.get("baseline") or (f"{comparison['target']:g}" if "target" in comparison else "")
    return comparison["arm"] + at + (f"\nminus {against}" if against else "")


def _wrapped(text: str, width: int = 62) -> str:
    return "\n".join(textwrap.wrap(text, width))
