"""The tables of docs/performance.md, from the rows in docs/data. The text is in the page itself."""

from typing import Any

from doc_tables import DATA, DOCS, filled, read_rows, table

from .table import MEASUREMENTS, Measurement

FILE = "performance.json"
Rows = list[dict[str, Any]]
SAYS_HOW = {"rounds", "commit", "date", "machine"}
COMMON = {"measurement", "case", "ratio", "low", "high", "own", "reference"} | SAYS_HOW


def write_page() -> None:
    """Fill the tables of docs/performance.md."""
    page = DOCS / "performance.md"
    page.write_text(filled(page.read_text(), tables(read_rows(DATA / FILE))))


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


def section(name: str, rows: Rows) -> str:
    """The table of a measurement, with the limit of each case and where, when and on which code it was measured."""
    cases = [row for row in rows if row["measurement"] == name]
    if not cases:
        return "**Not measured.**\n"
    where = dict.fromkeys(f"{row['date']} at {row['commit']}, on {row['machine']}" for row in cases)
    lines = pivot(cases) if name == "norms" else listed(MEASUREMENTS[name], cases)
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
