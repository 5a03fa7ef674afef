"""The page of a comparison: finding, differences, what failed, and the words for a paper."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from normexp.compare.judged import OPEN, Design, Look, Results
from normexp.compare.sentences import at, failed_runs, headline, in_steps, methods, partners
from normexp.config.process import command
from normexp.format import pluralize
from normexp.report.drawing import WIDTH, Drawing, new_figure, save_all
from normexp.report.latex import booktabs
from normexp.report.page import list_html, save_page
from normexp.report.style import Style, drawing_style
from normexp.report.tables import plain
from normexp.runs.files import write_text

PARAGRAPH = Markup("<p>{}</p>")
NAMES = {"arm": "norm", "level": "batch_size"}
ONE = "One setting: this says nothing of other data, networks or lengths."


def write(
    look: Look, design: Design, results: Results, out: Path, made_by: str, *, ended: str = "",
    facts: Sequence[str] = (), notes: Sequence[str] = (), tables: dict[str, pd.DataFrame] | None = None,
) -> Path:  # fmt: skip
    """Write index.html, tables/ and figures/ into a folder. Returns the page.

    Args:
        ended: why a training ended.
        facts, notes: what else the head and the section of failures say.
        tables: name -> more tables.
    """
    table = table_of_arms(look, design)
    names = NAMES if design.level_name == "batch size" else {"level": design.level_name}
    with drawing_style():
        figure = Drawing(
            "differences",
            f"Difference in {design.metric.name} to {design.baseline}",
            "Mean over seeds with its interval at the level of one look; shaded: within the margin.",
            differences(look, design),
        )
        pictures = save_all([figure], out / "figures", made_by, pdf=True)
    curves = ""
    if (out / "cache" / "runs").exists():
        curves = f"Curves and every rate: {command('report')} {shlex.quote(str(out / 'cache' / 'runs'))}"
    lost = [text for text in (failed_runs(look, design), partners(look)) if text]
    sections = [
        {"title": "Differences", "id": "differences", "html": list_html(table), "figures": [figure]},
        {
            "title": "Rates and failures" if design.rates else "What failed",
            "id": "failed",
            "html": paragraphs([*notes, *(lost or ["No run failed."])]),
        },
        {"title": "For a paper", "id": "paper", "html": paragraphs([methods(look, design, ended), curves])},
    ]
    shown = {
        name: own.rename(columns=names) for name, own in {"runs": results.runs, **(tables or {})}.items()
    }
    page = save_page(
        out,
        title=design.name,
        facts=[*facts, pluralize(look.seeds, "seed")],
        finding=headline(look, design),
        cautions=[ONE] if len(design.levels) == 1 or design.level_name == "batch size" else [],
        sections=sections,
        pictures=pictures,
        provenance=[],
        runs_text=f"{pluralize(len(results.runs), 'run')}{f'; {ended}' if ended else ''}.",
        made_by=made_by,
        tables={"comparison.csv": table} | {f"{name}.csv": own for name, own in shown.items()},
    )
    head, rows = [str(name) for name in table.columns], table.astype(str).to_numpy().tolist()
    write_text(out / "tables" / "comparison.tex", booktabs(head, rows))
    lines = [head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)]
    grid = "\n".join(f"| {' | '.join(row)} |" for row in lines)
    paper = plain(methods(look, design, ended))
    write_text(
        out / "report.md", f"# {plain(design.name)}\n\n{plain(headline(look, design))}\n\n{grid}\n\n{paper}\n"
    )
    return page


def paragraphs(texts: Sequence[str]) -> Markup:
    """Texts, each a paragraph."""
    return Markup("").join(PARAGRAPH.format(text) for text in texts if text)


def table_of_arms(look: Look, design: Design) -> pd.DataFrame:
    """Each norm at each level: its mean and its difference, both with their intervals; margin and word."""
    metric, judged = design.metric, {(own.norm, own.level): own for own in look.differences}
    rows = []
    for arm in look.arms:
        unit = f", {metric.unit}" if metric.unit else ""
        row = {
            "arm": arm.norm,
            design.level_name: arm.level,
            f"{metric.name}{unit}": metric.show(arm.mean),
            "95% interval": metric.range(arm.interval),
            "runs": arm.runs,
            "failed": arm.failed,
        }
        if own := judged.get((arm.norm, arm.level)):
            row |= {
                f"minus {design.baseline}": metric.show(own.effect, sign=True),
                "interval": metric.range(own.interval, sign=True),
                "relative": f"{100 * own.relative[0]:+.1f}%".replace("-", "−") if own.relative else "",
                "pairs": str(own.seeds) if own.paired else "not paired",
                "margin": metric.show(own.margin),
                "p, adjusted": f"{own.p:.2g}",
                "verdict": own.word,
                "more seeds": str(own.more) if own.word == OPEN and own.more is not None else "",
                "steps": in_steps(own).partition(" in ")[2] if own.steps else "",
            }
        rows.append(row)
    table = pd.DataFrame(rows).astype(object).fillna("")
    empty = [name for name in table.columns if (table[name].astype(str) == "").all()]
    return table.drop(columns=empty)


def differences(look: Look, design: Design) -> Figure:
    """A row for each difference: its mean and interval, and the margin around zero."""
    metric, rows = design.metric, look.differences[::-1]
    scale, style = metric.scale, Style(design.norms)
    figure, (axes,) = new_figure(1, panel=(WIDTH, 0.8 + 0.32 * max(len(rows), 3)))
    axes.axvline(0, color="#999999", linewidth=0.8)
    for y, row in enumerate(rows):
        color, margin = style.color[row.norm], scale * row.margin
        axes.fill_betweenx([y - 0.4, y + 0.4], -margin, margin, color="#eeeeee", linewidth=0)
        if np.isfinite(row.interval).all():
            axes.plot(scale * np.array(row.interval), [y, y], color=color, linewidth=1.6)
        if math.isfinite(row.effect):
            axes.plot(scale * row.effect, y, "o", color=color)
    axes.set_yticks(range(len(rows)), [f"{row.norm}{at(design, row.level)}: {row.word}" for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="y", visible=False)
    unit = f", in {metric.unit}" if metric.unit else ""
    axes.set_xlabel(f"{metric.name} minus that of {design.baseline}{unit}")
    return figure
