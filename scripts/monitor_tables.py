"""Write the generated tables of docs/monitors.md: `python scripts/monitor_tables.py`

The cost of monitors comes from docs/monitors_benchmark.json, which `benchmark.py monitors --json` writes. `--benchmark
FILES` joins parts that were measured one by one. The growth of gradients comes from docs/monitors_growth.json, which
`--growth FOLDER` makes from the runs of a study.
"""

import argparse
import json
import math
import statistics
from pathlib import Path

from benchmarks.page.markdown_table import table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "monitors.md"
BENCHMARK = ROOT / "docs" / "monitors_benchmark.json"
GROWTH = ROOT / "docs" / "monitors_growth.json"
RATE = "gradient_growth_rate/activation"


def cost(rows: list[dict]) -> str:
    """Two tables: the time of training at the default pace relative to training without monitors, and the cost of one
    measurement."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    names = list(dict.fromkeys(row["monitors"] for row in rows))
    found = {(row["model"], row["monitors"]): row for row in rows}
    # Every row measured the time of a step, so the median over all rows is the most exact.
    steps = {m: statistics.median(row["step_ms"] for row in rows if row["model"] == m) for m in models}
    first = rows[0]
    clocks = ", ".join(f"{row['monitors']} of {row['model']}" for row in rows if row["clock"] == "cpu")
    machine = (
        f"{first['device']}, {first['cores']} cores shared with other work, threads: {first['threads']}, "
        f"torch {first['torch']}. A step takes "
        + ", ".join(f"{ms:.1f} ms ({model})" for model, ms in steps.items())
        + "."
        + (f" Processor time instead of wall time, on a busy machine: {clocks}." if clocks else "")
    )

    def lines(cell) -> list[list[str]]:
        rows = [[found.get((model, name)) for model in models] for name in names]
        paces = [next(str(row["every"]) for row in cells if row) for cells in rows]
        return [
            [f"`{name}`", pace, *(cell(row) if row else "not measured" for row in cells)]
            for name, pace, cells in zip(names, paces, rows, strict=True)
        ]

    takes = lines(lambda r: f"{r['ratio']:.3f} ({r['ratio_low']:.3f} to {r['ratio_high']:.3f})")
    one = lines(lambda r: f"{r['in_steps']:.1f} steps, {r['memory_mib']:+.0f} MiB")
    head = ["monitors", "every", *models]
    return "\n".join(
        [
            machine + "\n",
            "Training with monitors at their default pace over training without (quartiles over pairs):\n",
            table(head, takes),
            "One measurement, in training steps, and what it adds to the peak of memory:\n",
            table(head, one),
        ]
    )


def theory(activation: str, batch: int) -> tuple[str, float]:
    if activation == "relu":
        return "pi / (pi - 1)", math.pi / (math.pi - 1)
    return "(B - 2) / (B - 3)", (batch - 2) / (batch - 3)


def growth(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        formula, limit = theory(row["activation"], row["batch_size"])
        measured = f"{statistics.mean(row['rates']):.3f} ± {statistics.stdev(row['rates']):.3f}"
        shape = [str(row[key]) for key in ("batch_size", "width", "depth")]
        lines.append([row["activation"], *shape, str(len(row["rates"])), measured, f"{limit:.3f}", formula])
    return table(["activation", "batch B", "width", "depth", "seeds", "measured", "theory", "formula"], lines)


def growth_of_runs(folder: Path) -> list[dict]:
    from normexp.runs import load, load_summaries

    keys = ["model.activation", "batch_size", "model.width", "model.depth"]
    runs = load(folder, metrics=[RATE])[["run", "value"]].astype({"run": str})
    runs = runs.merge(load_summaries(folder)[["run", *keys]], on="run")
    groups = runs.groupby(keys, observed=True, sort=True)["value"]
    names = [key.rpartition(".")[2] for key in keys]
    rows = [dict(zip(names, key, strict=True)) | {"rates": list(values)} for key, values in groups]
    return json.loads(json.dumps(rows, default=lambda number: number.item()))


def fill(page: str, section: str, text: str) -> str:
    """The page with the text between the section's markers replaced."""
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def filled(page: str) -> str:
    page = fill(page, "cost", cost(json.loads(BENCHMARK.read_text())))
    return fill(page, "growth", growth(json.loads(GROWTH.read_text())))


def write(path: Path, rows: list[dict]) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--growth", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.benchmark:
        write(BENCHMARK, [row for path in options.benchmark for row in json.loads(path.read_text())])
    if options.growth:
        write(GROWTH, growth_of_runs(options.growth))
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
