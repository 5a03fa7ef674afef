"""The page of a comparison: finding, differences, what failed, and the files for a paper."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from normexp import __version__
from normexp.compare.design import Design
from normexp.compare.judged import UNITS, Look, at, finding, show
from normexp.compare.run import Result
from normexp.config.process import command
from normexp.format import pluralize
from normexp.report.drawing import WIDTH, Drawing, new_figure, save_all
from normexp.report.page import list_html, save_page
from normexp.report.style import Style, drawing_style
from normexp.runs.files import write_text

FILES = Markup(
    "<p>{}</p><p><a href='table.tex'>table.tex</a>, <a href='methods.txt'>methods.txt</a>, "
    "<a href='result.json'>result.json</a>. Curves and every rate: <code>{}</code></p>"
)


def write(result: Result, out: Path, made_by: str) -> Path:
    """Write index.html, table.tex, methods.txt, result.json, tables/ and figures/ into a folder. Returns the page."""
    design, last = result.design, result.last
    text, method = finding(last, design.baseline, design.measure), methods(result)
    report = f"{command('report')} {shlex.quote(str(out / 'cache' / 'runs'))}"
    names = {"arm": "norm", "level": "batch_size"}
    tables = {
        "runs.csv": result.runs.rename(columns=names),
        "chosen.csv": result.chosen.rename(columns=names),
    }
    looks = [asdict(look) for look in result.looks]
    files = {
        "table.tex": table_tex(last, design),
        "methods.txt": f"{method}\n",
        "result.json": json.dumps({"finding": text, "ended": result.ended, "looks": looks}, indent=1),
        **{f"tables/{name}": rows.to_csv(index=False) for name, rows in tables.items()},
    }
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_text(out / name, content)
    with drawing_style():
        figure = Drawing(
            "differences",
            f"Difference in test {design.measure} to {design.baseline}",
            "Mean over paired seeds with its interval at the level of one look; shaded: within the margin.",
            differences(result),
        )
        pictures = save_all([figure], out / "figures", made_by, pdf=True)
    return save_page(
        out,
        title=design.name,
        facts=[
            " ".join(design.words),
            pluralize(last.seeds, "seed"),
            f"{len(looks)} of {len(design.looks)} looks",
            f"{result.runs['seconds'].sum() / 60:.1f} minutes of training",
        ],
        finding=f"In this setting: {text}",
        cautions=["One setting: this says nothing of other data, networks or lengths."],
        sections=[
            {
                "title": "Differences",
                "id": "differences",
                "html": list_html(difference_table(last, design)),
                "figures": [figure],
            },
            {"title": "What failed", "id": "failed", "html": Markup("<p>{}</p>").format(failures(result))},
            {"title": "For a paper", "id": "paper", "html": FILES.format(method, report)},
        ],
        pictures=pictures,
        provenance=[made_by],
        runs_text=f"{pluralize(len(result.runs), 'run')}; {result.ended}.",
        made_by=made_by,
        tables=tables,
    )


def difference_table(look: Look, design: Design) -> pd.DataFrame:
    """Each difference with its interval, margin and word."""
    measure = design.measure
    rows = pd.DataFrame(
        {
            "norm": difference.norm,
            "batch size": difference.level,
            f"difference in {measure}": show(difference.effect, measure, sign=True),
            "interval": " to ".join(show(end, measure, sign=True) for end in difference.interval),
            "margin": show(difference.margin, measure),
            "p, adjusted": f"{difference.p:.2g}",
            "failed runs": difference.failed,
            "verdict": difference.word,
        }
        for difference in look.differences
    )
    return rows.drop(columns="batch size") if design.levels == ("",) else rows


def failures(result: Result) -> str:
    """Which runs failed, at which rates."""
    bad = result.runs[result.runs["status"] == "diverged"].groupby(["arm", "lr"]).size()
    worst = [f"{arm.norm}{at(arm.level)}: {arm.failed}" for arm in result.last.arms if arm.failed]
    if bad.empty and not worst:
        return "No run diverged, and every seed's best run learned."
    where = "; ".join(f"{norm} at rate {rate:g}: {count}" for (norm, rate), count in bad.items())  # type: ignore[misc, has-type]
    guesses = f" Best runs that failed and count as guesses: {', '.join(worst)}." if worst else ""
    return f"Diverged runs: {where or 'none'}.{guesses}"


def methods(result: Result) -> str:
    """The paragraph for a methods section."""
    design, last = result.design, result.last
    rule = (
        "of practice (0.3 points up to an error of 3%, a tenth of it up to 10%, a point above; 0.02 nats of loss)"
        if isinstance(design.margin, str)
        else f"of {design.margin:g} in {design.measure}"
    )
    rates = ", ".join(f"{rate:g}" for rate in sorted(result.runs["lr"].unique()))
    return (
        f"We compared {', '.join(design.norms)} with normexp {__version__} (settings: {' '.join(design.words)})."
        " Under equal seeds all arms had equal initial weights and batches. Each arm was trained at learning"
        f" rates {rates}; every seed took its own best rate by validation, so intervals contain the noise of"
        f" tuning. Differences to {design.baseline} are means over {last.seeds} paired seeds with Student's t"
        " intervals; a failed run counts as a guess. A difference counts as decided if its interval lies"
        f" wholly beyond or wholly within a margin {rule}, fixed beforehand. Looks were planned at"
        f" {', '.join(map(str, design.looks))} seeds; each spends {last.alpha:.3g} of an error rate of 0.05 (Bonferroni"
        f" over looks, Holm over {pluralize(len(last.differences), 'comparison')}). It ended because {result.ended}."
    )


def table_tex(look: Look, design: Design) -> str:
    """A table for LaTeX with booktabs: norms in rows, batch sizes in columns, mean and half of the 95% interval."""
    shown = f"test {design.measure} ({UNITS[design.measure][1]})".replace("%", "\\%")
    rows = pd.DataFrame({"norm": [norm.replace("_", "\\_") for norm in design.norms]})
    for level in design.levels:
        cells = []
        for arm in (
            arm for norm in design.norms for arm in look.arms if (arm.norm, arm.level) == (norm, level)
        ):
            half = (arm.interval[1] - arm.interval[0]) / 2
            width = f" \\pm {show(half, design.measure)}" if np.isfinite(half) else ""
            cells.append(f"${show(arm.mean, design.measure)}{width}$".replace("−", "-"))
        rows[at(level, "batch ") or shown] = cells
    style = rows.style.hide(axis="index").to_latex(hrules=True, column_format=f"l{'r' * len(design.levels)}")
    return f"% {shown}: mean and half of its 95\\% interval; needs \\usepackage{{booktabs}}\n{style}"


def differences(result: Result) -> Figure:
    """A row for each difference: its mean and interval, and the margin around zero."""
    design, rows = result.design, result.last.differences[::-1]
    scale, style = 100 if design.measure == "error" else 1, Style(design.norms)
    figure, (axes,) = new_figure(1, panel=(WIDTH, 0.8 + 0.32 * max(len(rows), 3)))
    axes.axvline(0, color="#999999", linewidth=0.8)
    for y, row in enumerate(rows):
        color, margin = style.color[row.norm], scale * row.margin
        axes.fill_betweenx([y - 0.4, y + 0.4], -margin, margin, color="#eeeeee", linewidth=0)
        if np.isfinite(row.interval).all():
            axes.plot(scale * np.array(row.interval), [y, y], color=color, linewidth=1.6)
        axes.plot(scale * row.effect, y, "o", color=color)
    axes.set_yticks(range(len(rows)), [f"{row.norm}{at(row.level)}: {row.word}" for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{design.measure} minus that of {design.baseline}, in {UNITS[design.measure][0]}")
    return figure
