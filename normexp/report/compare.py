"""Compare two studies: pair their common runs, and list the settings in which the studies differ."""

import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from matplotlib.ticker import MaxNLocator

from normexp.format import pluralize
from normexp.report.drawing import (
    Drawing,
    Skipped,
    dark_colors,
    level_title,
    levels_shown,
    middle,
    panels,
    save_all,
)
from normexp.report.figures.layers import MOST_ARMS
from normexp.report.finding import cautions, source
from normexp.report.page import blocks, list_html, lists, save_page, save_tables
from normexp.report.statistics import curves
from normexp.report.study import Study, label
from normexp.report.style import FAINT, Style, drawing_style, percent, shorten
from normexp.report.tables import number
from normexp.runs.columns import identity_columns


def write_comparison(
    first: Study, second: Study, out: Path, *, refresh: int | None = None, made_by: str = ""
) -> Path:
    """Write `index.html`, figures and `tables/pairs.csv` under `out`. Returns the page's path.

    Raises ValueError if the studies vary different factors or have no pair of runs in common.
    """
    table = pairs(first, second)
    names = (str(first.path), str(second.path))
    with drawing_style():
        style = Style([arm for arm in first.arms if arm in second.arms])
        figures = list(draw(first, second, table, style))
        foot = f"A: {source(first)}\nB: {source(second)}"
        svgs = save_all(figures, out / "figures", foot)
    shown = table.drop(columns=["a", "b", "difference", "low", "high"])
    apart = list_html(differences(first, second))
    sections = [
        {"title": "What came out", "id": "out", "blocks": blocks(figures), "table": list_html(shown)},
        {"title": "What sets them apart", "id": "apart", "blocks": [], "table": apart},
    ]
    limits = [f"{name}: {text}" for name, study in (("A", first), ("B", second)) for text in cautions(study)]
    save_tables({"pairs.csv": table}, out)
    return save_page(
        out, title="A and B", facts=[f"A: {names[0]}", f"B: {names[1]}"],
        cautions=[*unpaired(first, second, table), *limits], dark=dark_colors(style.colour.values()),
        sections=sections, shapes={"any": svgs}, provenance=foot.split("\n"),
        lists=[{**one, "title": f"{name}: {one['title']}"} for name, study in (("A", first), ("B", second))
               for one in lists(study)],
        runs_text=f"{len(first.summaries)} finished runs in A, {len(second.summaries)} in B.", made_by=made_by,
        tables=["pairs.csv"], refresh=refresh,
    )  # fmt: skip


def pairs(first: Study, second: Study) -> pd.DataFrame:
    """One row per common arm and level: the means, and the paired difference B - A over equal seeds."""
    if first.x != second.x:
        raise ValueError(
            f"compare: A varies {label(first.x or 'nothing')}, B varies {label(second.x or 'nothing')}; "
            "compare studies of one factor"
        )
    rows = []
    for arm in first.arms:
        for level in first.levels or [math.nan]:
            a, b = (study.values(study.at(arm, level)) for study in (first, second))
            if (found := b.minus(a)).n:
                rows.append((arm, level, a.mean().mean, b.mean().mean, *found))
    if not rows:
        modes = [set(study.summaries["execution.mode"]) for study in (first, second)]
        how = f"; A was computed {' and '.join(modes[0])}, B {' and '.join(modes[1])}, and pairs do not mix"
        raise ValueError(
            "compare: no arm, level and seed that both studies have finished in the same way"
            + (how if modes[0] != modes[1] else "; nothing to pair")
        )
    columns = ["arm", "level", "a", "b", "difference", "low", "high", "pairs"]
    table = pd.DataFrame(rows, columns=columns)
    values = {
        name: [number(value, first.metric, signed=name not in "ab") for value in table[name]]
        for name in ("a", "b", "difference", "low", "high")
    }
    ends = [f"[{low}, {high}]" for low, high in zip(values["low"], values["high"], strict=True)]
    return table.assign(
        **{"A": values["a"], "B": values["b"], "B − A": values["difference"], "95% interval": ends}
    )


def differences(first: Study, second: Study) -> pd.DataFrame:
    """The keys that are constant in each study and differ between them."""
    tables = [study.summaries for study in (first, second)]
    names = list(dict.fromkeys(name for table in tables for name in identity_columns(table)))
    rows = []
    for name in [*names, "execution.device", "execution.precision", "versions.normexp", "versions.torch"]:
        columns = [table.get(name, pd.Series([None])).astype(object) for table in tables]
        values = [column.where(column.notna(), "null").astype(str).unique() for column in columns]
        if all(len(found) == 1 for found in values) and values[0][0] != values[1][0]:
            rows.append({"key": name, "A": values[0][0], "B": values[1][0]})
    return pd.DataFrame(rows, columns=["key", "A", "B"])


def unpaired(first: Study, second: Study, table: pd.DataFrame) -> list[str]:
    """Sentences about the arms and runs that are not compared."""
    found = []
    for name, study, other in (("A", first, second), ("B", second, first)):
        alone = [arm for arm in study.arms if arm not in other.arms]
        if alone:
            found.append(f"Only in {name}, so not compared: {', '.join(alone)}.")
        runs = study.chosen
        left = len(runs) - int(table["pairs"].sum())
        if left:
            lost = int(runs["failed"].sum())
            why = f", {lost} of them failed" if lost else ""
            found.append(
                f"{pluralize(left, 'run')} of {name} {'is' if left == 1 else 'are'} in no pair{why}."
            )
    if (table["pairs"] < 2).any():
        found.append("Some differences rest on one pair and have no interval.")
    return found


def draw(first: Study, second: Study, table: pd.DataFrame, style: Style) -> Iterator[Drawing | Skipped]:
    """Differences with their intervals, one panel per level."""
    levels = [level for level in levels_shown(first) if (table["level"].fillna(0) == level).any()]
    figure, shown = panels(
        levels, f"{label(first.metric)}, B − A", "", height=0.9 + 0.25 * len(style.colour), sharey=True
    )
    arms = list(style.colour)[::-1]
    for level, axes in shown.items():
        axes.axvline(0, color=FAINT, linewidth=0.8)
        for _, row in table[table["level"].fillna(0) == level].iterrows():
            place, colour = arms.index(row["arm"]), style.colour[row["arm"]]
            axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.4)
            axes.plot(row["difference"], place, marker=style.marker[row["arm"]], color=colour)
        axes.set_yticks(range(len(arms)), [shorten(arm) for arm in arms])
        axes.set_ylim(-0.6, len(arms) - 0.4)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        axes.set_title(level_title(first, level))
        if first.metric.endswith("accuracy"):
            percent(axes.xaxis)
    caption = (
        "Mean of the differences over equal seeds, with its 95% interval; right of the line B is higher."
    )
    yield Drawing("differences", f"{label(first.metric).capitalize()}: B less A", caption, figure)
    yield learning(first, second, style)


def learning(first: Study, second: Study, style: Style) -> Drawing | Skipped:
    """Validation curves of both studies, one panel per arm."""
    title, level = "Validation accuracy: A dashed, B drawn through", middle(first)
    both = [study.recorded("val/accuracy") for study in (first, second)]
    if any(rows.empty for rows in both):
        return Skipped("learning", title, "val/accuracy was not recorded in both")
    figure, shown = panels(list(style.colour)[:MOST_ARMS], "epoch", "validation accuracy", sharey=True)
    for rows, dash in zip(both, ("--", "-"), strict=True):
        curve = curves(rows[rows["level"] == level], ["arm"], "epoch")
        for arm, axes in shown.items():
            points, colour = curve[curve["arm"] == arm], style.colour[arm]
            axes.plot(points["epoch"], points["mean"], color=colour, linestyle=dash)
            style.band(axes, arm, points["epoch"], points)
            axes.set_title(shorten(arm), color=colour)
            percent(axes.yaxis)
    where = f" At {level_title(first, level)}." if first.x else ""
    return Drawing("learning", title, f"Mean over seeds and its 95% interval.{where}", figure)
