"""The atlas of a bank: for each question of practice a figure over all its settings, with what it says in words."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from normexp.claims.evidence.measured import Measured
from normexp.claims.evidence.sources import failed_runs
from normexp.claims.judge.comparison import Comparison, practical_margin
from normexp.claims.judge.estimate import median_interval, share_interval
from normexp.claims.judge.plain_words import ends
from normexp.claims.judge.settings_count import count, number_in
from normexp.claims.pages import markdown_page, markdown_table, plain_norm, save_figure
from normexp.claims.pages.findings import spans
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import EARLY, FINAL
from normexp.format import pluralize
from normexp.report.drawing import NARROW, new_figure
from normexp.report.style import FREE, INK, MARKERS, Style, drawing_style
from normexp.runs.files import write_text

LEVEL = 0.95
TICKS = (-30, -10, -3, -1, 0, 1, 3, 10, 30)
MOST_ROWS = 24  # of the figure of failures
BATCHNORM = "batchnorm"
Panel = Callable[[Axes, list[Measured], str, str], Any]  # settings, an arm and its baseline


def against(arm: str, baseline: str) -> Comparison:
    """Whether an arm errs less than another, by what matters in practice."""
    return Comparison(kind="smaller", arm=arm, baseline=baseline, margin="practical")


def compared(settings: Sequence[Measured], arm: str, baseline: str) -> pd.DataFrame:
    """The difference of two norms in each setting that has a number, by its size: name, at, model, batch, number, its
    standard error, side."""
    rows = [
        (measured.name, measured.at, measured.cell.labels["model"],
         int(measured.cell.labels.get("batch size", 0)),
         difference.number, np.nan_to_num(difference.error), difference.side)
        for measured in settings
        if (difference := number_in(measured.setting, against(arm, baseline))).number is not None
    ]  # fmt: skip
    columns = ("name", "at", "model", "batch", "number", "error", "side")
    return pd.DataFrame(rows, columns=columns).sort_values("number", kind="stable", ignore_index=True)


def difference_in_words(settings: Sequence[Measured], arm: str, baseline: str) -> str:
    """Counts and median of a difference, in points of error."""
    counts = count([measured.setting for measured in settings], against(arm, baseline), LEVEL)
    words = f"better in {counts['beyond']}, worse in {counts['opposite']} of {counts['n']}"
    words += f", no number in {counts['failed']}" if counts["failed"] else ""
    if counts["median"] is None:
        return words
    return (
        f"{words}; median {100 * counts['median']:+.1f} points{ends(counts['median_interval'], '+.1f', 100)}"
    )


def mean_errors(measured: Measured, norms: Sequence[str]) -> dict[str, float]:
    """Of each norm over its seeds, a failed run counted as a guess."""
    return {norm: float(measured.setting.values_of(norm).mean()) for norm in norms}


def best_errors(settings: Sequence[Measured], norms: Sequence[str]) -> str:
    """The error of the best norm on each kind of data, in words: how far these networks get."""
    errors: dict[str, list[float]] = {}
    for measured in settings:
        best = min(mean_errors(measured, norms).values())
        errors.setdefault(measured.cell.labels["data"], []).append(100 * best)
    return "; ".join(
        f"{data} {np.median(own):.2g}% ({min(own):.2g} to {max(own):.2g}) in {len(own)} settings"
        for data, own in sorted(errors.items())
    )


def near_best(settings: Sequence[Measured], norms: Sequence[str]) -> dict[str, int]:
    """In how many settings each norm errs at most a margin of practice more than the best one."""
    n_near = dict.fromkeys(norms, 0)
    for measured in settings:
        means = mean_errors(measured, norms)
        best = min(means.values())
        for norm, mean in means.items():
            n_near[norm] += bool(mean - best <= practical_margin(float(best), "error"))
    return n_near


# Figures. Each is as wide as a phone, which is a column in print.


def looks(settings: Sequence[Measured]) -> dict[str, dict[str, Any]]:
    """A color and a marker for each kind of model."""
    names = enumerate(sorted({measured.cell.labels["model"] for measured in settings}))
    return {
        name: {"color": FREE[place % len(FREE)], "marker": MARKERS[place % len(MARKERS)], "linestyle": ""}
        for place, name in names
    }


def points_axis(axes: Axes, values: Iterable[float]) -> None:
    """Differences in points of error: linear to one point, logarithmic beyond."""
    most = max([1.5, *(abs(100 * value) for value in values if np.isfinite(value))])
    axes.set_yscale("symlog", linthresh=1, linscale=0.6)
    axes.set_ylim(-1.6 * most, 1.6 * most)
    axes.set_yticks([tick for tick in TICKS if abs(tick) <= 1.3 * most], minor=False)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
    axes.axhline(0, color=INK, linewidth=0.8)


def dots(
    axes: Axes, settings: Sequence[Measured], arm: str, baseline: str, x: str | None = None
) -> pd.DataFrame:
    """Differences of all settings at their final length, with one standard error over seeds; hollow where they are too
    small to matter. They stand over a column, or from the setting in which the arm helps most. Returns them."""
    rows = compared([measured for measured in settings if measured.at == FINAL], arm, baseline)
    kinds = looks(settings)
    differences: Iterable[Any] = rows.itertuples(index=False)
    for place, row in enumerate(differences):
        at, y, error = (getattr(row, x) if x else place), 100 * row.number, 100 * row.error
        look = kinds[row.model]
        axes.plot([at, at], [y - error, y + error], color=look["color"], linewidth=0.8, alpha=0.6)
        filled = look["color"] if row.side != "within" else "white"
        axes.plot([at], [y], **look, markerfacecolor=filled, markersize=3.4)
    points_axis(axes, rows["number"])
    return rows


def strip(axes: Axes, settings: list[Measured], arm: str, baseline: str) -> pd.DataFrame:
    """All settings, from the one in which the arm helps most."""
    rows = dots(axes, settings, arm, baseline)
    axes.set_xticks([])
    axes.grid(axis="x", visible=False)
    return rows


def both_lengths(axes: Axes, settings: list[Measured], arm: str, baseline: str) -> None:
    """The same with the early length as a gray dot, and a line between the two."""
    rows = strip(axes, settings, arm, baseline)
    early_rows = compared([measured for measured in settings if measured.at == EARLY], arm, baseline)
    early = early_rows.set_index("name")["number"]
    for x, (name, last) in enumerate(zip(rows["name"], rows["number"], strict=True)):
        if name in early:
            ends = [100 * early[name], 100 * last]
            axes.plot([x, x], ends, color="#bbbbbb", linewidth=1, zorder=1)
            axes.plot([x], ends[:1], "o", color="#999999", markersize=2.4, zorder=1)
    points_axis(axes, [*rows["number"], *early.reindex(rows["name"]).dropna()])


def over_batch(axes: Axes, settings: list[Measured], arm: str, baseline: str) -> None:
    """The difference over the batch size, and its median in each third of the settings."""
    rows = dots(axes, settings, arm, baseline, "batch")
    for low, high, middle, _ in thirds(rows):
        axes.plot([low, high], [100 * middle] * 2, color=INK, linewidth=2.2)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("batch size")


def thirds(rows: pd.DataFrame) -> list[tuple[int, int, float, tuple[float, float]]]:
    """(smallest batch, largest batch, median, its interval) of each third of the settings by their batch size."""
    ordered, summaries = rows.sort_values("batch", kind="stable"), []
    for first, last in pairwise(np.linspace(0, len(ordered), 4).astype(int)):
        part = ordered[first:last]
        if len(part):
            values, sizes = part["number"].to_numpy(), part["batch"].tolist()
            summaries.append((sizes[0], sizes[-1], float(np.median(values)), median_interval(values, LEVEL)))
    return summaries


def panels(settings: list[Measured], pairs: Sequence[tuple[str, str]], panel: Panel) -> Figure:
    """Two panels a row, one for each pair of norms."""
    figure, axes = new_figure(len(pairs), 2, panel=(NARROW.width / 2, 1.9), ylabel="points of error")
    for panel_axes, (arm, baseline) in zip(axes, pairs, strict=True):
        panel(panel_axes, settings, arm, baseline)
        panel_axes.set_title(f"{arm} − {baseline}", color=Style([arm]).colour[arm], fontsize=8.5)
    kinds = looks(settings)
    handles = [matplotlib.lines.Line2D([], [], **look) for look in kinds.values()]
    figure.legend(handles, list(kinds), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def draw_best(settings: Sequence[Measured], norms: Sequence[str]) -> Figure:
    """The share of settings in which each norm is within the margin of the best, with exact intervals."""
    figure, (axes,) = new_figure(1, panel=(NARROW.width, 0.7 + 0.27 * len(norms)))
    colors, n = Style(norms).colour, len(settings)
    for y, (norm, k) in enumerate(near_best(settings, norms).items()):
        span = [100 * end for end in share_interval(k, n, LEVEL)]
        axes.plot(span, [y, y], color=colors[norm], linewidth=2)
        axes.plot([100 * k / n], [y], "o", color=colors[norm])
        axes.text(102, y, f"{k} of {n}", va="center", fontsize=8, color=colors[norm])
    axes.set_yticks(range(len(norms)), norms, fontsize=8.5)
    axes.set_ylim(len(norms) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of settings in which it is the best, or as good in practice")
    return figure


def failures(
    settings: Sequence[Measured], norms: Sequence[str]
) -> list[tuple[Measured, dict[str, tuple[int, int]]]]:
    """Settings in which a run failed -> norm -> (failed runs, all runs), at all rates; most failures first."""
    failing = []
    for measured in settings:
        lost = pd.Series(failed_runs(measured.runs, measured.cell)).groupby(measured.runs["norm"].to_numpy())
        by_norm = {norm: (int(lost.sum()[norm]), int(lost.size()[norm])) for norm in norms}
        if any(failed for failed, _ in by_norm.values()):
            failing.append((measured, by_norm))
    return sorted(failing, key=lambda row: -sum(failed / of for failed, of in row[1].values()))


def draw_failures(
    rows: Sequence[tuple[Measured, dict[str, tuple[int, int]]]], norms: Sequence[str]
) -> Figure:
    """Failed of all runs, one row a setting."""
    shown = rows[:MOST_ROWS]
    figure, (axes,) = new_figure(1, panel=(NARROW.width, 0.6 + 0.2 * len(shown)))
    shares = np.array([[by_norm[norm][0] / by_norm[norm][1] for norm in norms] for _, by_norm in shown])
    axes.imshow(shares, aspect="auto", cmap="Oranges", vmin=0, vmax=1.4)
    for y, (_, by_norm) in enumerate(shown):
        for x, norm in enumerate(norms):
            failed, of = by_norm[norm]
            axes.text(x, y, f"{failed}/{of}" if failed else "·", ha="center", va="center", fontsize=7)
    axes.set_yticks(range(len(shown)), [measured.in_words for measured, _ in shown], fontsize=7)
    axes.set_xticks(range(len(norms)), norms, fontsize=7.5, rotation=25, ha="left")
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.grid(visible=False)
    return figure


# The page.


def audit_in_words(record: Mapping[str, Any]) -> str:
    """What an audit of the ledger found, see `normexp.claims.evidence.audit`."""
    same, others = ([row for row in record["rows"] if bool(row["other"]) == other] for other in (False, True))
    near = [row["off"] for row in others if not row["differences"]]
    off = {kind: max((deviation[kind] for deviation in near), default=0.0) for kind in ("loss", "accuracy")}
    machines = dict.fromkeys(
        f"{on['processor']}, {pluralize(int(on['threads']), 'thread')}, torch {on['torch']}, commit {on['commit'][:12]}"
        for on in (row["on"] for row in record["rows"])
    )
    return markdown_page("audit.md.j2", same=same, others=others, off=off, machines=machines, **record)


def write_atlas(path: Path, bank: Bank, settings: list[Measured], audited: Path | None = None) -> str:
    """Write the page and its figures, into the folder `images` beside it. Returns a line on them. Raises ValueError if
    no setting is finished.

    Args:
        audited: the file of the ledger's last audit.
    """
    final = [measured for measured in settings if measured.at == FINAL]
    if not bank.known_population or not final:  # of settings that somebody chose, shares say nothing
        raise ValueError(
            f"bank={bank.name}: no setting of it is in the ledger; train it: normexp evidence grid"
        )
    early = [measured for measured in settings if measured.at == EARLY]
    first, *others = bank.norms
    pairs, batches = [(norm, first) for norm in others], list[tuple[str, str]]()
    if BATCHNORM in bank.norms and all("batch size" in measured.cell.labels for measured in final):
        batches = [(BATCHNORM, norm) for norm in bank.norms if norm != BATCHNORM]
    lost = failures(final, bank.norms)
    with drawing_style():
        figures = {"best": draw_best(final, bank.norms), "norms": panels(settings, pairs, strip)}
        if batches:
            figures["batch"] = panels(settings, batches, over_batch)
        if early:
            figures["lengths"] = panels(settings, pairs, both_lengths)
        if lost:
            figures["failures"] = draw_failures(lost, bank.norms)
        images = {name: f"images/atlas_{bank.name}_{name}.png" for name in figures}
        for name, figure in figures.items():
            save_figure(figure, path.parent / images[name])
    text = markdown_page(
        "atlas.md.j2",
        bank=bank.name,
        n=len(final),
        of=len(bank.cells),
        rejected=sum("rejected" in row for row in bank.pilots.values()),
        reached=best_errors(final, bank.norms),
        norms=bank.norms,
        where=spans([measured.cell.labels for measured in final], {}),
        figures=images,
        best=near_best(final, bank.norms),
        pairs=[(*pair, difference_in_words(final, *pair)) for pair in pairs],
        kinds=by_kind(final, pairs),
        batches=[(*pair, in_thirds(final, *pair)) for pair in batches],
        early=[(*pair, difference_in_words(early, *pair)) for pair in pairs] if early else [],
        failed=len(lost),
        shown=min(len(lost), MOST_ROWS),
        lost=lost_table(final, lost, bank.norms),
        audit=audit_in_words(json.loads(audited.read_text())) if audited else "",
    )
    write_text(path, text)
    return f"{path}: {len(final)} settings, {len(figures)} figures"


def in_thirds(settings: Sequence[Measured], arm: str, baseline: str) -> str:
    """The medians of the thirds by batch size, in words."""
    return "; ".join(
        f"batch of {low} to {high}: {100 * middle:+.1f}{ends(interval, '+.1f', 100)}"
        for low, high, middle, interval in thirds(compared(settings, arm, baseline))
    )


def by_kind(settings: Sequence[Measured], pairs: Sequence[tuple[str, str]]) -> str:
    """A table: for each kind of model in how many settings a norm is better, and worse, than the first."""
    rows, differences = [], [compared(settings, *pair) for pair in pairs]
    for kind in looks(settings):
        sides = [
            difference.loc[difference["model"] == kind, "side"].value_counts() for difference in differences
        ]
        texts = [f"{side.get('beyond', 0)} / {side.get('opposite', 0)}" for side in sides]
        rows.append((kind, sum(measured.cell.labels["model"] == kind for measured in settings), *texts))
    return markdown_table(("model", "settings", *(arm for arm, _ in pairs)), rows, range(1, len(pairs) + 2))


def lost_table(settings: Sequence[Measured], lost: Sequence, norms: Sequence[str]) -> str:
    """A table: in how many settings a run of each norm failed at some rate, and how many runs at each seed's best rate
    did."""
    rows = []
    for norm in norms:
        some = sum(by_norm[norm][0] > 0 for _, by_norm in lost)
        best = [measured.setting.outcomes[norm, ""].failed for measured in settings]
        rows.append((plain_norm(norm), some, f"{sum(map(sum, best))} of {sum(map(len, best))}"))
    columns = ("norm", "settings with a failed run", "failed runs at each seed's best rate")
    return markdown_table(columns, rows, (1, 2))
