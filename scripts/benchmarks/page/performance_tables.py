"""The tables of docs/performance.md, each from the rows of one benchmark, the ratio first."""

from collections.abc import Iterable
from typing import Any

from .markdown_table import by_shape, table

Rows = list[dict[str, Any]]
LOOP_LIMITS = {64: 1.10, 512: 1.03}


def machines(rows: Rows) -> str:
    """One line: the machines of the rows."""
    found = dict.fromkeys(_machine(row) for row in rows)
    return "Measured on: " + "; ".join(found) + ".\n"


def _machine(row: dict[str, Any]) -> str:
    if "machine" not in row:
        known = [f"{key}: {row[key]}" for key in ("cores", "threads") if key in row]
        known += [f"torch {row['torch']}"] if "torch" in row else []
        return "a machine that was not recorded" + (f" ({', '.join(known)})" if known else "")
    m = row["machine"]
    memory = f", {m['memory_gib']:g} GiB" if m["memory_gib"] else ""
    threads = m["threads"] and f"{m['threads']} thread{'s' * (m['threads'] != 1)}"
    parts = [f"{m['cpu']}, {m['cores']} cores{memory}", m["gpu"] or "no GPU", threads]
    versions = f"Python {m['python']}, torch {m['torch']}, Lightning {m['lightning']}"
    return ", ".join(part for part in parts if part) + f" ({versions})"


def spread(row: dict[str, Any], digits: int = 2) -> str:
    return f"{row['low']:.{digits}f} to {row['high']:.{digits}f}"


def loop(rows: Rows) -> str:
    head = ["over bare", "quartiles", "limit", "loop", "model", "batch", "ms a step", "bare ms", "blocks"]
    lines = []
    for row in rows:
        limit = LOOP_LIMITS.get(row["batch_size"]) if row["loop"] == "normexp" else None
        what = [str(limit or ""), row["loop"], row["model"], str(row["batch_size"])]
        times = [f"{row['us'] / 1e3:.2f}", f"{row['bare_us'] / 1e3:.2f}", str(row["blocks"])]
        lines.append([f"{row['ratio']:.2f}", spread(row), *what, *times])
    return table(head, lines)


def seconds(rows: Rows) -> str:
    """The table of `startup` or `sweep`."""
    lines = [
        [f"{r['ratio']:.2f}", spread(r), r["what"], f"{r['seconds']:.2f}", f"{r['against']:.2f}"]
        for r in rows
    ]
    head = ["ratio", "spread", "what", "seconds", "over seconds"]
    if any(r.get("runs_a_minute") for r in rows):
        head.append("runs a minute")
        for line, r in zip(lines, rows, strict=True):
            line.append(f"{r['runs_a_minute']:.0f}" if r.get("runs_a_minute") else "")
    return table(head, lines)


def scale(rows: Rows) -> str:
    head = ["time", "range", "memory", "model", "option", "ms a step", "MiB"]
    lines = [
        [
            f"{r['ratio']:.2f}", spread(r), f"{r['memory_ratio']:.2f}", r["model"], f"`{r['axis']}={r['value']}`",
            f"{r['ms']:.2f}", f"{r['memory_mib']:.1f}",
        ]
        for r in rows
    ]  # fmt: skip
    return table(head, lines)


def leak(rows: Rows) -> str:
    head = ["ratio", "from", "to", "KiB a step", "limit", "verdict"]
    lines = []
    for r in rows:
        ends = [f"{r[f'{end}_mib']:.1f} MiB at step {r[f'{end}_step']:,}" for end in ("first", "last")]
        verdict = "leaks" if r["leaks"] else "no leak"
        lines.append([f"{r['ratio']:.3f}", *ends, f"{r['kib_a_step']:.3f}", f"{r['limit']:g}", verdict])
    readings = ", ".join(f"{mib:.1f}" for _, mib in rows[-1]["readings"])
    return table(head, lines) + f"\nMiB at each tenth of the run: {readings}.\n"


def compiled(rows: Rows) -> str:
    head = [
        "over plain",
        "range",
        "compile",
        "model",
        "batch",
        "ms a step",
        "plain ms",
        "compiling s",
        "again s",
        "pays after",
    ]
    lines = []
    for r in rows:
        again = "not measured" if r["cached_seconds"] is None else f"{r['cached_seconds']:.1f}"
        pays = "never" if r["pays_after_steps"] is None else f"{r['pays_after_steps']:,} steps"
        what = [
            f"`{r['compile']}`",
            r["model"],
            str(r["batch_size"]),
            f"{r['ms']:.2f}",
            f"{r['eager_ms']:.2f}",
        ]
        lines.append([f"{r['ratio']:.2f}", spread(r), *what, f"{r['compile_seconds']:.1f}", again, pays])
    return table(head, lines)


def replicas(rows: Rows) -> str:
    head = [
        "ratio",
        "range",
        "model",
        "width",
        "batch",
        "replicas",
        "seed-steps/s",
        "one by one",
        "processes x threads",
    ]
    lines = [
        [
            f"{r['ratio']:.2f}", spread(r), r["model"], str(r["width"]), str(r["batch_size"]), str(r["replicas"]),
            f"{r['together']:.0f}", f"{r['alone']:.0f}", f"{r['workers']} x {r['threads']}",
        ]
        for r in rows
    ]  # fmt: skip
    options = dict.fromkeys(r["options"] or "the default data" for r in rows)
    clock = " Processor time instead of wall time." if any(r.get("clock") == "cpu" for r in rows) else ""
    return table(head, lines) + f"\nMeasured with {'; '.join(f'`{o}`' for o in options)}.{clock}\n"


def equality(rows: Rows) -> str:
    models = list(dict.fromkeys(r["model"] for r in rows))
    found = {(r["norm"], r["model"]): r for r in rows}
    lines, reasons = [], {}
    for norm in dict.fromkeys(r["norm"] for r in rows):
        cells = []
        for model in models:
            row = found.get((norm, model), {"difference": None, "why_not": "not measured"})
            cells.append("–" if row["difference"] is None else f"{row['difference']:.0e}")
            if row["difference"] is None:
                reasons.setdefault(row["why_not"], []).append(f"`{norm}` in {model}")
        lines.append([f"`{norm}`", *cells])
    why = "".join(f"- {', '.join(where)}: {reason}\n" for reason, where in reasons.items())
    return table(["norm", *models], lines) + (
        f"\nNot trained together, but one after the other:\n\n{why}" if why else ""
    )


def norms(rows: Rows) -> str:
    return by_shape([r for r in rows if not r["compiled"]], "norm", " ({:.1f})")


def monitors(rows: Rows) -> str:
    models = list(dict.fromkeys(r["model"] for r in rows))
    found = {(r["monitors"], r["model"]): f"{r['ratio']:.3f}" for r in rows}
    return table(
        ["monitors", *models],
        [[f"`{name}`", *(found.get((name, model), "–") for model in models)] for name in _names(rows)],
    )


def _names(rows: Rows) -> Iterable[str]:
    measured = dict.fromkeys(r["monitors"] for r in rows)
    return [name for name in ("light", "naive") if name in measured]
