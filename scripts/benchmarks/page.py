"""The tables of docs/performance.md and docs/recipes.md, from the rows in docs/data. The text is in the pages."""

import statistics
from typing import Any

from doc_tables import DATA, DOCS, fill, read_rows, table

from .table import MEASUREMENTS, Measurement

FILE, PRECISION = "performance.json", "precision.json"  # in docs/data
Rows = list[dict[str, Any]]
SAYS_HOW = {"rounds", "commit", "date", "machine"}
COMMON = {"measurement", "case", "ratio", "low", "high", "own", "reference"} | SAYS_HOW


def write_page() -> None:
    """Fill the tables of docs/performance.md and docs/recipes.md, and draw the curves of the second."""
    rows = read_rows(DATA / FILE)
    for name, parts in pages(rows).items():
        fill(DOCS / name, parts)
    draw_curves(cases_of("fast", rows))


def pages(rows: Rows) -> dict[str, dict[str, str]]:
    """Page -> marker -> text."""
    by_page: dict[str, dict[str, str]] = {}
    parts = tables(rows) | {"bfloat16": accuracies(read_rows(DATA / PRECISION))}
    for name, text in parts.items():
        page = MEASUREMENTS[name].page if name in MEASUREMENTS else "performance.md"
        by_page.setdefault(page, {})[name] = text
    return by_page


def tables(rows: Rows) -> dict[str, str]:
    """Marker -> text: the targets, the table of each measurement, and what has no numbers."""
    measured = {(row["measurement"], row["case"]) for row in rows}
    missing = {
        name: [case for case in m.cases if (name, case) not in measured] for name, m in MEASUREMENTS.items()
    }
    lines = [
        f"- {name}: {len(cases)} of {len(MEASUREMENTS[name].cases)} cases"
        for name, cases in missing.items()
        if cases
    ]
    parts = {name: section(name, rows) for name in MEASUREMENTS}
    return {"targets": targets(rows), **parts, "missing": "\n".join(lines)}


def cases_of(name: str, rows: Rows) -> Rows:
    """The rows of a measurement in the order of table.py. They stand in the order in which they were measured."""
    by_case = {row["case"]: row for row in rows if row["measurement"] == name}
    return [by_case[case] for case in MEASUREMENTS[name].cases if case in by_case]


def section(name: str, rows: Rows) -> str:
    """The table of a measurement, with the limit of each case and where, when and on which code it was measured."""
    cases = cases_of(name, rows)
    if not cases:
        return "**Not measured.**\n"
    where = dict.fromkeys(f"{row['date']} at {row['commit']}, on {row['machine']}" for row in cases)
    others = {"norms": pivot, "fast": reached}
    lines = others[name](cases) if name in others else listed(MEASUREMENTS[name], cases)
    return lines + "\nMeasured " + "; ".join(where) + ".\n"


def listed(measurement: Measurement, rows: Rows) -> str:
    """A line for each case."""
    extras = list(dict.fromkeys(key for row in rows for key in row if key not in COMMON))
    head = ["ratio", "quartiles", "limit", "case", *measurement.columns, "rounds"]
    lines = []
    for row in rows:
        digits = 3 if row["measurement"] == "monitors" else 2
        ratios = [f"{row['ratio']:.{digits}f}", f"{row['low']:.{digits}f} to {row['high']:.{digits}f}"]
        times = [number(row["own"]), number(row["reference"]), row["rounds"]]
        more = [number(row.get(key)) for key in extras]
        lines.append([*ratios, measurement.limit(row["case"]), row["case"], *times, *more])
    return table([*head, *(key.replace("_", " ") for key in extras)], lines)


def pivot(rows: Rows) -> str:
    """Cases `line, column` as lines and columns of ratios with their quartiles."""
    cells = {tuple(row["case"].split(", ")): row for row in rows}
    columns = list(dict.fromkeys(column for _, column in cells))
    lines = [
        [f"`{name}`", *(said(cells.get((name, column))) for column in columns)]
        for name in dict.fromkeys(line for line, _ in cells)
    ]
    return table(["", *columns], lines)


def reached(rows: Rows) -> str:
    """A line for each goal: what each seed came to on test, in nats or %, and the median seconds of all."""
    lines = []
    for row in rows:
        scale, digits = (1, 3) if "nats" in row["case"] else (100, 2)
        ends = ", ".join(f"{scale * run['test']:.{digits}f}" for run in row["runs"])
        starts = [run["start"] for run in row["runs"] if run["start"] is not None]
        start = f"{statistics.median(starts):.0f}" if starts else None
        lines.append([row["case"], row["runs"][0]["steps"], ends, f"{row['own']:.0f}", start])
    return table(["goal", "steps", "on test, seeds from 0", "training, s", "start and end, s"], lines)


def accuracies(rows: Rows) -> str:
    """A line for each setting: the accuracy under each norm in float32 and in bfloat16, in %."""
    norms, lines = list(rows[0]["accuracy"]), []
    for row in rows:
        both = (row["accuracy"][norm] for norm in norms)
        cells = (f"{100 * full:.1f} {100 * half:.1f}" for full, half in both)
        lines.append([row["setting"], row["network"], *cells])
    return table(["setting", "network", *norms], lines)


def draw_curves(rows: Rows) -> None:
    """The figure of docs/recipes.md: accuracy over seconds on CIFAR-10, of the recipe and of its peers."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    of_images = [row for row in rows if row["case"].startswith("CIFAR-10")]
    for number, row in enumerate(of_images):
        title = row["case"].partition(": ")[2]
        title = title if row["runs"][0]["start"] is None else f"recipe=fast, to {title[:3]}"
        for place, run in enumerate(row["runs"]):
            x, y = zip(*run["points"], strict=True)
            label = None if place else title
            axes.plot(
                x, [100 * value for value in y], color=f"C{number}", label=label, marker=".", linewidth=1
            )
    axes.axhline(88, color="#cccccc", linewidth=0.8, zorder=0)
    axes.set(xlabel="seconds of training on two cores", ylabel="validation accuracy, %", ylim=(20, 95))
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(DOCS / "images" / "time_to_accuracy.png", dpi=150)


def said(row: dict[str, Any] | None) -> str | None:
    return f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})" if row else None


def number(value: Any) -> str | None:
    if not isinstance(value, float):
        return value
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def targets(rows: Rows) -> str:
    """How many of the limits that were asked for are met, and by how much each of the others is missed."""
    lines, met = [], 0
    for row in rows:
        measurement = MEASUREMENTS[row["measurement"]]
        limit = measurement.limit(row["case"])
        if limit is not None and row["ratio"] > limit:
            over = f"{100 * (row['ratio'] / limit - 1):.0f}%" if limit else number(row["ratio"])
            lines.append([f"{row['ratio']:.2f}", f"≤ {limit:g}", over, measurement.title, row["case"]])
        met += limit is not None and row["ratio"] <= limit
    missed = table(["ratio", "target", "missed by", "measurement", "case"], lines)
    return f"{met} of {met + len(lines)} targets are met.\n" + f"\n{missed}" * bool(lines)
