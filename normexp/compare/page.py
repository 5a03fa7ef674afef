"""The page of a comparison: finding, table, curves, what failed, and the files for a paper."""

import html
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from normexp import __version__
from normexp.compare.judged import Difference, finding, show, table_tex
from normexp.compare.run import Result
from normexp.figures.plot import Line, Panel, Plot, draw
from normexp.format import pluralize
from normexp.report.drawing import Drawing, dark_colors, save_all
from normexp.report.page import save_page
from normexp.report.style import Style, drawing_style
from normexp.runs import load
from normexp.runs.files import atomic_write

MOST_PANELS = 3


def write(result: Result, out: Path, made_by: str) -> Path:
    """Write index.html, table.tex, methods.txt, result.json, tables/ and figures/ into a folder. Returns the page."""
    asked, last = result.asked, result.last
    text = finding(last, asked.baseline, result.measure)
    method = methods(result)
    tables = {
        "runs.csv": result.runs.drop(columns="sources", errors="ignore"),
        "chosen.csv": result.chosen.drop(columns="sources", errors="ignore"),
    }
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        rows.to_csv(out / "tables" / name, index=False)
    files = {
        "table.tex": table_tex(last, asked.claim, result.measure),
        "methods.txt": f"{method}\n",
        "result.json": json.dumps(
            {"finding": text, "ended": result.ended, "looks": [asdict(one) for one in result.looks]}, indent=1
        ),
    }
    for name, content in files.items():
        with atomic_write(out / name) as file:
            file.write(content.encode())
    unit = "%" if result.measure == "error" else "nats"
    asked_of = {
        "values": (
            "What came out",
            f"Test {result.measure} ({unit}) of each seed's own best rate.",
            values_plot,
        ),
        "curves": (
            "How it was learned",
            "Mean over seeds on validation, at each seed's own best rate.",
            curves_plot,
        ),
        "rates": ("At every rate", "Mean over the seeds whose runs did not diverge.", rates_plot),
    }
    with drawing_style():
        drawings = [
            Drawing(name, title, caption, draw(plot(result)))
            for name, (title, caption, plot) in asked_of.items()
        ]
        inlined = save_all(drawings, out / "figures", made_by)
    failed = failures(result)
    blocks = [{"drawing": one, "title": one.title, "name": one.name} for one in drawings]
    paper = (
        f"<p>{html.escape(method)}</p><p><a href='table.tex'>table.tex</a>, <a href='methods.txt'>methods.txt</a>, "
        "<a href='result.json'>result.json</a>; figures as PDF beside each.</p>"
    )
    table = difference_table(last.differences, result.measure)
    return save_page(
        out,
        title=asked.claim.name,
        facts=facts(result),
        finding=f"Seen here: {text}",
        cautions=["One setting: this says nothing of other data, networks or lengths."],
        sections=[
            {"title": "Differences", "id": "differences", "html": table, "blocks": blocks},
            {"title": "What failed", "id": "failed", "html": Markup(f"<p>{html.escape(failed)}</p>")},
            {"title": "For a paper", "id": "paper", "html": Markup(paper)},
        ],
        shapes={"wide": inlined, "narrow": inlined},
        lists=[],
        dark=dark_colors(Style(list(asked.claim.arms)).colour.values()),
        provenance=[made_by],
        runs_text=f"{pluralize(len(result.runs), 'run')}; {result.ended}.",
        made_by=made_by,
        tables=tables,
        refresh=None,
    )


def facts(result: Result) -> list[str]:
    """The line under the title."""
    asked = result.asked
    return [
        " ".join(asked.words),
        pluralize(result.last.seeds, "seed"),
        f"{len(result.looks)} of {len(asked.looks)} looks",
        f"{result.seconds / 60:.1f} minutes of training",
    ]


def difference_table(differences: list[Difference], measure: str) -> Markup:
    """Each difference with its interval, margin and word."""
    rows = pd.DataFrame(
        [
            {
                "norm": one.norm,
                "batch size": one.level,
                f"difference in {measure}": show(one.effect, measure, sign=True),
                "interval": " to ".join(show(end, measure, sign=True) for end in one.interval),
                "margin": show(one.margin, measure),
                "p, adjusted": f"{one.p:.2g}",
                "failed runs": one.failed,
                "seen here": one.word,
            }
            for one in differences
        ]
    )
    if (rows["batch size"] == "").all():
        rows = rows.drop(columns="batch size")
    return Markup(rows.to_html(index=False, border=0, escape=True))


def failures(result: Result) -> str:
    """Which runs failed, at which rates."""
    bad = result.runs[result.runs["status"] != "completed"]
    worst = [
        f"{arm.norm}{f' at {arm.level}' if arm.level != '' else ''}: {arm.failed}"
        for arm in result.last.arms
        if arm.failed
    ]
    if bad.empty and not worst:
        return "No run diverged, and every seed's best run learned."
    counts = bad.groupby(["norm", "lr"]).size()
    at = "; ".join(f"{norm} at rate {rate:g}: {count}" for (norm, rate), count in counts.items())  # type: ignore[misc, has-type]
    own = f" Best runs that failed and count as guesses: {', '.join(worst)}." if worst else ""
    return f"Diverged runs: {at or 'none'}.{own}"


def methods(result: Result) -> str:
    """The paragraph for a methods section."""
    asked, last = result.asked, result.last
    claim, looks = asked.claim, ", ".join(map(str, asked.looks))
    margin = claim.comparisons[0].margin
    rule = (
        "of practice (0.3 points up to an error of 3%, a tenth of it up to 10%, a point above; 0.02 nats of loss)"
        if isinstance(margin, str)
        else f"of {margin:g} in {result.measure}"
    )
    rates = ", ".join(f"{rate:g}" for rate in sorted(result.runs["lr"].unique()))
    return (
        f"We compared {', '.join(claim.arms)} with normexp {__version__} (settings: {' '.join(asked.words)})."
        " Under equal seeds all arms had equal initial weights and batches. Each arm was trained at learning"
        f" rates {rates}; every seed took its own best rate by validation, so intervals contain the noise of"
        f" tuning. Differences to {asked.baseline} are means over {last.seeds} paired seeds with Student's t"
        " intervals; a failed run counts as a guess. A difference counts as decided if its interval lies"
        f" wholly beyond or wholly within a margin {rule}, fixed beforehand. Looks were planned at {looks}"
        f" seeds; each spends {last.alpha:.3g} of an error rate of 0.05 (Bonferroni over looks, Holm over"
        f" {pluralize(len(claim.comparisons), 'comparison')}). It ended because {result.ended}."
    )


def scaled(values: Any, measure: str) -> list[float]:
    """Errors in percent, losses as they are."""
    return [100 * float(v) if measure == "error" else float(v) for v in values]


def values_plot(result: Result) -> Plot:
    """Values over the batch size, or over seeds where there is one batch size."""
    lines, several = [], len(result.asked.claim.levels) > 1
    for norm in result.asked.claim.arms:
        own = [arm for arm in result.last.arms if arm.norm == norm]
        if several:
            low, high = (scaled([arm.interval[end] for arm in own], result.measure) for end in (0, 1))
            lines.append(
                Line(
                    norm,
                    [arm.level for arm in own],
                    scaled([arm.mean for arm in own], result.measure),
                    low,
                    high,
                    look="points",
                )
            )
        else:
            lines.append(
                Line(
                    norm,
                    list(range(len(own[0].values))),
                    scaled(own[0].values, result.measure),
                    look="points",
                )
            )
    label = "test error (%)" if result.measure == "error" else "test loss (nats)"
    return Plot(
        [Panel("", "batch size" if several else "seed", label, lines, log="x" if several else "")], ""
    )


def curves_plot(result: Result) -> Plot:
    """Validation over steps of the chosen runs, one panel per batch size."""
    metric, panels = ("val/accuracy" if result.measure == "error" else "val/loss"), []
    levels = result.asked.claim.levels
    for level in levels[:MOST_PANELS]:
        lines = []
        for norm in result.asked.claim.arms:
            own = result.chosen[(result.chosen["norm"] == norm) & (result.chosen["level"] == level)]
            rows = pd.concat([load(folder) for folder in own["folder"]])
            mean = rows[rows["metric"] == metric].groupby("step")["value"].mean()
            ys = 100 * (1 - mean) if result.measure == "error" else mean
            lines.append(Line(norm, [int(step) for step in mean.index], ys.tolist()))
        title = f"batch size {level}" if level != "" else ""
        panels.append(
            Panel(
                title,
                "step",
                "validation error (%)" if result.measure == "error" else "validation loss",
                lines,
            )
        )
    return Plot(panels, "")


def rates_plot(result: Result) -> Plot:
    """Mean test value over the learning rate, one panel per batch size."""
    column, panels = ("test_accuracy" if result.measure == "error" else "test_loss"), []
    for level in result.asked.claim.levels[:MOST_PANELS]:
        lines = []
        for norm in result.asked.claim.arms:
            own = result.runs[
                (result.runs["norm"] == norm)
                & (result.runs["level"] == level)
                & (result.runs["status"] == "completed")
            ]
            mean = own.groupby("lr")[column].mean().dropna()
            ys = 100 * (1 - mean) if result.measure == "error" else mean
            lines.append(Line(norm, [float(rate) for rate in mean.index], ys.tolist(), look="points"))
        title = f"batch size {level}" if level != "" else ""
        panels.append(
            Panel(
                title,
                "learning rate",
                "test error (%)" if result.measure == "error" else "test loss",
                lines,
                log="x",
            )
        )
    return Plot(panels, "")
