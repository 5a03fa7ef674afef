"""The figure of a claim: in one setting the values of every seed beside the effect, over several a forest plot."""

import math
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.verdict import Count, Judgement, SettingRow, Verdict, Word
from normexp.claims.units import SHARES, effect_name
from normexp.claims.words import title as title_of
from normexp.report.drawing import new_figure
from normexp.report.study import label
from normexp.report.style import INK, Style, shorten
from normexp.runs.files import atomic_write

COLORS = {"for": "#009e73", "against": "#d55e00", "open": "#666666"}
IN_FAVOR = (Word.SUPPORTED, Word.NO_COUNTEREXAMPLE, Word.HOLDS_HERE)
KIND_OF = dict.fromkeys(IN_FAVOR, "for") | {Word.REFUTED: "against"}
WORDS = {"for": "holds", "against": "the opposite", "open": "neither"}  # of a setting
BAND = "#e6e6e6"  # of effects that are too small to matter
MOST_NAMED = 40  # rows; the names of more would overlap


class Line(NamedTuple):
    """A row of a forest plot. `kind` is a key of `COLORS`. Effects within the `margin` are too small to matter."""

    name: str
    effect: float
    ends: tuple[float, float]
    kind: str
    margin: float
    summary: bool = False


def lines_of(verdict: Verdict) -> list[Line]:
    """A row per setting that has a number, and the median of drawn ones. Bars of settings are one standard error over
    seeds. With several comparisons the effects are those of the first, as are the colors; hand-picked settings, which
    are few, have a row for each comparison."""
    each = len(verdict.counts) > 1 and not verdict.claim.drawn
    counts = verdict.counts if each else verdict.counts[:1]
    rows = [(row, count) for count in counts for row in count.settings if row.number is not None]
    lines = [line_of_setting(row, count, named=each) for row, count in rows]
    if each:
        return lines
    lines.sort(key=lambda line: line.effect)
    if verdict.effect is not None and verdict.interval and lines:
        kind = KIND_OF.get(verdict.word, "open")
        margin = lines[0].margin
        lines.append(Line("median of settings", verdict.effect, verdict.interval, kind, margin, summary=True))
    return lines


def line_of_setting(row: SettingRow, count: Count, *, named: bool) -> Line:
    """The row of a setting, with its labels; `named` by what is compared. An equivalence has no opposite."""
    assert row.number is not None
    half = 0.0 if math.isnan(row.error) else row.error
    against = row.side == "opposite" and not count.comparison.rule.within
    about = [row.labels[key] for key in ("data", "model") if key in row.labels]
    name = " ".join((row.name.removesuffix("-early"), *about))
    if named:
        name = effect_name(count.comparison) + (f", {row.name}" if len(count.settings) > 1 else "")
    kind = "for" if row.holds else "against" if against else "open"
    return Line(name, row.number, (row.number - half, row.number + half), kind, row.margin)


def line_of_judgement(result: Judgement) -> Line:
    """The row of a comparison in one setting."""
    name, kind = effect_name(result.comparison), KIND_OF.get(result.word, "open")
    return Line(name, result.effect, result.interval, kind, result.comparison.size, summary=True)


def draw(table: pd.DataFrame, verdict: Verdict, path: Path) -> None:
    """Write the figure. `path` ends in .png. `table` is the evidence of a verdict from one setting."""
    if verdict.counts:
        lines, width = lines_of(verdict), 84
        # Counts of several comparisons are long, and each row names its own.
        alone = len(verdict.counts) == 1 or verdict.claim.drawn
        heading = wrapped(verdict, width, with_title=alone)
        height = (1.6 if alone else 1.9) + (0.17 if len(lines) <= MOST_NAMED else 0.075) * len(lines)
        figure, (axes,) = new_figure(1, panel=(7, height))
        draw_forest(axes, lines, verdict)
        axes.set_xlabel(textwrap.fill(units_of_effect(verdict, named=alone), 80), fontsize=9)
        if lines:
            explain(axes, lines, verdict.confidence, inside=alone)
        else:
            axes.text(0.5, 0.5, "no setting has a number", ha="center", transform=axes.transAxes)
    else:
        judged = [judgement for judgement in verdict.judgements if not judgement.comparison.rule.universal]
        ratios, panel, width = ((3, 2), (5, 4.2), 105) if judged else ((1,), (7, 3.8), 78)
        heading = wrapped(verdict, width)
        figure, columns = new_figure(len(ratios), len(ratios), panel=panel, width_ratios=ratios)
        draw_values(columns[0], table, verdict)
        if len(set(table["factor"])) > 1:
            columns[0].set_xlabel(label(next(iter(verdict.claim.factor), "")), fontsize=9)
        if judged:
            lines = [line_of_judgement(judgement) for judgement in judged]
            draw_forest(columns[1], lines, verdict)
            level = f"{100 * verdict.confidence:.4g}%"
            columns[1].set_title(f"effect and {level} interval; gray: too small to matter", fontsize=9)
            columns[1].set_xlabel(textwrap.fill(units_of_effect(verdict), 48), fontsize=9)
    color = COLORS[KIND_OF.get(verdict.word, "open")]
    figure.suptitle(heading, x=0.01, ha="left", color=color, fontweight="bold", fontsize=9.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150)


def wrapped(verdict: Verdict, width: int, *, with_title: bool = True) -> str:
    """The sentence and what became of it, in lines."""
    claim = verdict.claim
    parts = (claim.sentence, title_of(verdict)) if with_title else (f"Claim {claim.id}: {claim.sentence}",)
    return "\n".join(textwrap.fill(text, width) for text in parts)


def explain(axes: Axes, lines: list[Line], confidence: float, *, inside: bool) -> None:
    """Say in the figure what colors, bars, band and diamond mean, and how many rows have each color. Rows that are
    comparisons are few, and leave no room `inside`."""
    kinds, last = [line.kind for line in lines if not line.summary], lines[-1]
    handles: list[Any] = [
        Line2D([], [], color=color, marker="o", markersize=5, label=f"{WORDS[kind]} ({kinds.count(kind)})")
        for kind, color in COLORS.items()
        if kind in kinds
    ]
    if last.summary:
        text = f"median, {100 * confidence:.4g}% interval"
        color = COLORS[last.kind]
        handles.append(Line2D([], [], color=color, label=text, marker="D", markersize=5, linewidth=4))
    handles.append(Patch(color=BAND, label="too small to matter"))
    target: Any = axes if inside else axes.figure
    rows = "settings" if inside else "comparisons"
    position = {} if inside else {"loc": "outside lower right", "ncols": len(handles)}
    target.legend(
        handles=handles, title=f"{rows}; bars: one standard error", fontsize=8, title_fontsize=8, framealpha=0.9,
        edgecolor="white", **position,
    )  # fmt: skip


def draw_forest(axes: Axes, lines: list[Line], verdict: Verdict) -> None:
    """Effects with their intervals, one below the other. Wide intervals of single settings do not squeeze the others:
    bars that reach the edge go on."""
    shown = [0.0, *(value for line in lines for value in (line.effect, -line.margin, line.margin))]
    shown += [end for line in lines if line.summary for end in line.ends]
    finite = [value for value in shown if math.isfinite(value)]
    room = 0.1 * (max(finite) - min(finite)) or 1.0
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlim(min(finite) - room, max(finite) + room)
    for y, line in enumerate(lines):
        axes.fill_betweenx([y - 0.5, y + 0.5], -line.margin, line.margin, color=BAND, linewidth=0)
        ends = [max(min(end, 1e300), -1e300) for end in line.ends]
        axes.plot(ends, [y, y], color=COLORS[line.kind], linewidth=4 if line.summary else 2)
        axes.plot([line.effect], [y], "D" if line.summary else "o", color=COLORS[line.kind], markersize=5)
    if len(lines) <= MOST_NAMED:
        axes.set_yticks(range(len(lines)), [shorten(line.name) for line in lines], fontsize=7.5)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(lines) - 1} settings, and their median", fontsize=9)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    if effect_of(verdict).log:
        axes.xaxis.set_major_locator(FixedLocator(ratio_ticks(*axes.get_xlim())))
        axes.xaxis.set_major_formatter(lambda value, _: f"×{math.exp(value):.3g}")
    elif verdict.claim.measure.startswith(SHARES):
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}")


def ratio_ticks(low: float, high: float) -> list[float]:
    """The logarithms of plain ratios between two logarithms: even steps from 1, or 1, 2 and 5 of each decade."""
    if high - low < math.log(6):
        steps = MaxNLocator(nbins=5).tick_values(math.exp(low) - 1, math.exp(high) - 1)
        ratios = [1 + step for step in steps]
    else:
        decades = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
        firsts = (1, 2, 5) if high - low < math.log(300) else (1,)
        ratios = [first * 10.0**decade for decade in decades for first in firsts]
    return [math.log(ratio) for ratio in ratios if ratio > 0 and low <= math.log(ratio) <= high]


def draw_values(axes: Axes, table: pd.DataFrame, verdict: Verdict) -> None:
    """The value of each arm over the factor's levels, or one column per arm. Every seed is a point."""
    levels, arms = list(dict.fromkeys(table["factor"])), list(dict.fromkeys(table["arm"]))
    numeric = all(isinstance(level, int | float) for level in levels)
    by_arm, colors = len(levels) == 1, Style(arms).color
    finite = table[table["value"].map(math.isfinite)]
    for index, arm in enumerate(arms):
        rows, color = finite[finite["arm"] == arm], colors[arm]
        failed = table[(table["arm"] == arm) & ~table["value"].map(math.isfinite)]
        for level, values in failed.groupby("factor", sort=False)["value"]:
            x = index if by_arm else level if numeric else levels.index(level)
            mark_lost(axes, x, color, infinite=bool((values == math.inf).any()))
        if rows.empty:
            continue
        xs = rows["factor"] if numeric else rows["factor"].map(levels.index)
        means = rows["value"].groupby(xs).mean()
        if by_arm:
            axes.plot(index + aside(rows["value"]), rows["value"], "o", color=color, alpha=0.45, markersize=4)
            axes.plot([index], means, "_", color=color, markersize=22)
        else:
            axes.plot(xs, rows["value"], "o", color=color, alpha=0.45, markersize=4, markeredgewidth=0)
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
    axes.set_ylabel(textwrap.fill(verdict.claim.measure, 40), fontsize=9)
    axes.set_title("every seed, and the mean", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def mark_lost(axes: Axes, x: Any, color: Any, *, infinite: bool) -> None:
    """A cross outside the axis where values are not finite: above it and named for infinity, else below."""
    y = 1.02 if infinite else -0.02
    axes.plot(x, y, "x", color=color, clip_on=False, transform=axes.get_xaxis_transform())
    if infinite:
        axes.annotate("inf", (x, y), xycoords=("data", "axes fraction"), xytext=(6, -3), fontsize=8,
                      textcoords="offset points", color=color, annotation_clip=False)  # fmt: skip


def aside(values: pd.Series) -> pd.Series:
    """How far each point stands aside of its column, so that none hides another of its value."""
    index = values.groupby(values).cumcount()
    return 0.05 * (index - (values.groupby(values).transform("size") - 1) / 2)


def effect_of(verdict: Verdict) -> Comparison:
    """The first comparison that has an effect."""
    return next(result.comparison for result in verdict.comparisons if not result.comparison.rule.universal)


def units_of_effect(verdict: Verdict, *, named: bool = False) -> str:
    """What the axis of effects counts, and with `named` of which arms."""
    first, measure = effect_of(verdict), verdict.claim.measure
    factor = next(map(label, verdict.claim.factor), "") if verdict.counts else ""
    between = ""
    if named and first.arm:
        arms = ["no norm" if arm == "none" else arm for arm in (first.arm, first.baseline) if arm]
        between = ": " + (" over " if first.log and not first.rule.slope else " minus ").join(arms)
    points = ", in points" if measure.startswith(SHARES) and not first.log and not first.rule.slope else ""
    return f"{first.rule.unit(first, measure, factor)}{points}{between}"
