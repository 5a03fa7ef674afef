"""The page of a comparison: finding, table, curves, what failed, and the files for a paper."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from normexp import __version__
from normexp.compare.judged import UNITS, Difference, at, finding, show, table_tex
from normexp.compare.run import Result
from normexp.figures.plot import Line, Panel, Plot, draw
from normexp.format import pluralize
from normexp.report.drawing import Drawing, save_all
from normexp.report.page import blocks, save_page
from normexp.report.statistics import curves, of_all_runs
from normexp.report.style import drawing_style
from normexp.runs import load
from normexp.runs.files import write_text

MOST_PANELS = 3
FILES = Markup(
    "<p>{}</p><p><a href='table.tex'>table.tex</a>, <a href='methods.txt'>methods.txt</a>, "
    "<a href='result.json'>result.json</a>; figures as PDF beside each.</p>"
)


def write(result: Result, out: Path, made_by: str) -> Path:
    """Write index.html, table.tex, methods.txt, result.json, tables/ and figures/ into a folder. Returns the page."""
    design, last = result.design, result.last
    text, method = finding(last, design.baseline, result.measure), methods(result)
    both = {"runs.csv": result.runs, "chosen.csv": result.chosen}
    tables = {name: rows.drop(columns="sources", errors="ignore") for name, rows in both.items()}
    looks = [asdict(look) for look in result.looks]
    files = {
        "table.tex": table_tex(last, design.claim, result.measure),
        "methods.txt": f"{method}\n",
        "result.json": json.dumps({"finding": text, "ended": result.ended, "looks": looks}, indent=1),
        **{f"tables/{name}": rows.to_csv(index=False) for name, rows in tables.items()},
    }
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_text(out / name, content)
    with drawing_style():
        figures = [Drawing(*words, draw(plot)) for words, plot in plots(result).items()]
        pictures = save_all(figures, out / "figures", made_by)
    table = difference_table(last.differences, result.measure)
    return save_page(
        out,
        title=design.claim.name,
        facts=[
            " ".join(design.words),
            pluralize(last.seeds, "seed"),
            f"{len(looks)} of {len(design.looks)} looks",
            f"{result.seconds / 60:.1f} minutes of training",
        ],
        finding=f"Seen here: {text}",
        cautions=["One setting: this says nothing of other data, networks or lengths."],
        sections=[
            {"title": "Differences", "id": "differences", "html": table, "blocks": blocks(figures)},
            {"title": "What failed", "id": "failed", "html": Markup("<p>{}</p>").format(failures(result))},
            {"title": "For a paper", "id": "paper", "html": FILES.format(method)},
        ],
        pictures=pictures,
        provenance=[made_by],
        runs_text=f"{pluralize(len(result.runs), 'run')}; {result.ended}.",
        made_by=made_by,
        tables=tables,
    )


def difference_table(differences: list[Difference], measure: str) -> Markup:
    """Each difference with its interval, margin and word."""
    rows = pd.DataFrame(
        {
            "norm": difference.norm,
            "batch size": difference.level,
            f"difference in {measure}": show(difference.effect, measure, sign=True),
            "interval": " to ".join(show(end, measure, sign=True) for end in difference.interval),
            "margin": show(difference.margin, measure),
            "p, adjusted": f"{difference.p:.2g}",
            "failed runs": difference.failed,
            "seen here": difference.word,
        }
        for difference in differences
    )
    if (rows["batch size"] == "").all():
        rows = rows.drop(columns="batch size")
    return Markup(rows.to_html(index=False, border=0, escape=True))


def failures(result: Result) -> str:
    """Which runs failed, at which rates."""
    bad = result.runs[result.runs["status"] != "completed"].groupby(["norm", "lr"]).size()
    worst = [f"{arm.norm}{at(arm.level)}: {arm.failed}" for arm in result.last.arms if arm.failed]
    if bad.empty and not worst:
        return "No run diverged, and every seed's best run learned."
    where = "; ".join(f"{norm} at rate {rate:g}: {count}" for (norm, rate), count in bad.items())  # type: ignore[misc, has-type]
    guesses = f" Best runs that failed and count as guesses: {', '.join(worst)}." if worst else ""
    return f"Diverged runs: {where or 'none'}.{guesses}"


def methods(result: Result) -> str:
    """The paragraph for a methods section."""
    design, last = result.design, result.last
    claim, looks = design.claim, ", ".join(map(str, design.looks))
    margin = claim.comparisons[0].margin
    rule = (
        "of practice (0.3 points up to an error of 3%, a tenth of it up to 10%, a point above; 0.02 nats of loss)"
        if isinstance(margin, str)
        else f"of {margin:g} in {result.measure}"
    )
    rates = ", ".join(f"{rate:g}" for rate in sorted(result.runs["lr"].unique()))
    return (
        f"We compared {', '.join(claim.arms)} with normexp {__version__} (settings: {' '.join(design.words)})."
        " Under equal seeds all arms had equal initial weights and batches. Each arm was trained at learning"
        f" rates {rates}; every seed took its own best rate by validation, so intervals contain the noise of"
        f" tuning. Differences to {design.baseline} are means over {last.seeds} paired seeds with Student's t"
        " intervals; a failed run counts as a guess. A difference counts as decided if its interval lies"
        f" wholly beyond or wholly within a margin {rule}, fixed beforehand. Looks were planned at {looks}"
        f" seeds; each spends {last.alpha:.3g} of an error rate of 0.05 (Bonferroni over looks, Holm over"
        f" {pluralize(len(claim.comparisons), 'comparison')}). It ended because {result.ended}."
    )


def plots(result: Result) -> dict[tuple[str, str, str], Plot]:
    """(name, title, caption) of each figure of the page -> its lines."""
    chosen, label = result.chosen, f"{result.measure} ({UNITS[result.measure][1]})"
    column = "accuracy" if result.measure == "error" else "loss"
    learned = chosen[chosen["status"] == "completed"]  # one that diverged would end every curve of its norm
    runs: Iterable[Any] = (chosen if learned.empty else learned).itertuples(index=False)
    logged = pd.concat([load(run.folder).assign(norm=run.norm, level=run.level) for run in runs])
    by = ["norm", "level"]
    means = of_all_runs(curves(logged[logged["metric"] == f"val/{column}"], by, "step"), by)
    done = result.runs[result.runs["status"] == "completed"].assign(value=lambda runs: runs[f"test_{column}"])
    words = (
        ("values", "What came out", f"Test {label} of each seed's own best rate."),
        (
            "curves",
            "How it was learned",
            "Mean on validation over the seeds that did not diverge, at their best rates.",
        ),
        ("rates", "At every rate", "Mean over the seeds whose runs did not diverge."),
    )
    shown = (
        values_plot(result, label),
        panels(result, means.rename(columns={"mean": "value"}), "step", "step", f"validation {label}"),
        panels(result, done, "lr", "learning rate", f"test {label}", log="x"),
    )
    return dict(zip(words, shown, strict=True))


def values_plot(result: Result, label: str) -> Plot:
    """Values over the batch size, or over seeds where there is one batch size."""
    several, lines = len(result.design.claim.levels) > 1, []
    for norm in result.design.claim.arms:
        arms = [arm for arm in result.last.arms if arm.norm == norm]
        xs, values = [arm.level for arm in arms], np.array([(arm.mean, *arm.interval) for arm in arms])
        if not several:
            xs, values = list(range(len(arms[0].values))), np.array(arms[0].values)[:, None]
        mean, *band = (100 * values if result.measure == "error" else values).T.tolist()
        low, high = band or (None, None)
        lines.append(Line(norm, xs, mean, low, high, look="points"))
    x = "batch size" if several else "seed"
    return Plot([Panel("", x, f"test {label}", lines, log="x" if several else "")], "")


def panels(result: Result, rows: pd.DataFrame, x: str, xlabel: str, ylabel: str, log: Any = "") -> Plot:
    """The mean of `value` over `x`, a line per norm, one panel per batch size."""

    def line(level_rows: pd.DataFrame, norm: str) -> Line:
        mean = level_rows[level_rows["norm"] == norm].groupby(x)["value"].mean().dropna()
        ys = 100 * (1 - mean) if result.measure == "error" else mean
        return Line(norm, mean.index.tolist(), ys.tolist(), look="points" if log else "line")

    shown: Sequence[Any] = result.design.claim.levels[:MOST_PANELS]
    return Plot(
        [
            Panel(
                at(level, "batch size "), xlabel, ylabel,
                [line(rows[rows["level"] == level], norm) for norm in result.design.claim.arms], log=log,
            )
            for level in shown
        ],
        "",
    )  # fmt: skip
