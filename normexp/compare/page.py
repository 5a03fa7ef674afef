"""The page of an answer: finding, differences, what failed, and the words for a paper."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from normexp import __version__
from normexp.compare.answer import Answer
from normexp.compare.judged import EQUAL, Look
from normexp.compare.sentences import failed_runs, headline, partners
from normexp.config.process import command
from normexp.format import pluralize
from normexp.report.drawing import WIDTH, Drawing, new_figure, save_all
from normexp.report.latex import booktabs
from normexp.report.page import list_html, save_page
from normexp.report.style import Style, drawing_style
from normexp.report.tables import grid, plain
from normexp.runs.files import write_text
from normexp.runs.table import FEWEST_SEEDS

METHODS = Path(__file__).with_name("methods.txt.j2")
PARAGRAPH = Markup("<p>{}</p>")
ONE = "One setting: this says nothing of other data, networks or lengths."


def write(answer: Answer, out: Path, made_by: str) -> Path:
    """Write the page of an answer with its figure, its tables as csv and LaTeX, and report.md. Returns its path."""
    look, design, table = answer.look, answer.look.design, answer.table
    with drawing_style():
        figure = Drawing(
            "differences",
            f"Difference in {design.metric.name} to {design.baseline}",
            "Mean over seeds with its interval at the level of one look; shaded: within the margin.",
            differences(look),
        )
        pictures = save_all([figure], out / "figures", made_by, pdf=True)
    runs, text = out / "cache" / "runs", methods(look, answer.ended)
    more = f"Curves and every rate: {command('report')} {shlex.quote(str(runs))}" if runs.exists() else ""
    failures = list(filter(None, [failed_runs(look), partners(look)])) or ["No run failed."]
    title = "Rates and failures" if design.rates else "What failed"
    names = {"level": design.level_name} | ({"arm": "norm", "level": "batch_size"} if design.of_sizes else {})
    tables = {"runs": answer.runs.drop(columns=["curve", "examples"], errors="ignore"), **answer.tables}
    tables = {f"{name}.csv": frame.rename(columns=names) for name, frame in tables.items()}
    short = for_paper(table)
    page = save_page(
        out, title=design.name, facts=[*answer.facts, pluralize(look.seeds, "seed")], finding=headline(look),
        cautions=[ONE] if len(design.levels) == 1 or design.of_sizes else [], pictures=pictures, provenance=[],
        sections=[
            {"title": "Differences", "id": "differences", "html": list_html(short), "figures": [figure]},
            {"title": title, "id": "failed", "html": paragraphs([*answer.notes, *failures])},
            {"title": "For a paper", "id": "paper", "html": paragraphs([text, more])},
        ],
        runs_text=runs_text(answer), lists=[{"title": "Every number of each arm", "html": list_html(table)}],
        made_by=made_by, tables={"comparison.csv": table} | tables,
    )  # fmt: skip
    head, rows = [*map(str, short)], short.to_numpy().tolist()
    write_text(out / "tables" / "comparison.tex", booktabs(head, rows, text))
    lines = grid([head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)])
    parts = (f"# {plain(design.name)}", plain(headline(look)), lines, plain(text))
    write_text(out / "report.md", "\n\n".join(parts) + "\n")
    return page


def methods(look: Look, ended: str = "") -> str:
    """The paragraph for a methods section, from `methods.txt.j2`, whose lines become one."""
    template = jinja2.Template(METHODS.read_text(), trim_blocks=True, undefined=jinja2.StrictUndefined)
    lines = template.render(
        look=look, design=look.design, rates=[f"{rate:g}" for rate in look.design.rates], ended=ended,
        paired=any(diff.paired for diff in look.differences), version=__version__, fewest=FEWEST_SEEDS,
    )  # fmt: skip
    return lines.strip().replace("\n", " ")


def for_paper(table: pd.DataFrame) -> pd.DataFrame:
    """What of the table fits the width of a page, or of a phone: arms, values and differences with their intervals, and
    verdicts."""
    short = table.astype(str)
    for name in short.columns.intersection(["95% interval", "interval"]):
        before = short.columns[[*short].index(name) - 1]
        short[before] += short[name].str.replace(r"(.+) to (.+)", r" [\1, \2]", regex=True).str.strip("–")
    more = [
        "95% interval", "interval", "runs", "failed", "relative", "pairs", "margin", "p, adjusted", "more seeds",
        "steps",
    ]  # fmt: skip
    return short.replace({"verdict": {EQUAL: "equal"}}).drop(columns=more, errors="ignore")


def runs_text(answer: Answer) -> str:
    """How many runs there are, how many of them count, and why there are no more."""
    counted, trained = len(answer.runs), len(answer.tables.get("runs", ()))
    more = f", of which {counted} count: each seed's best of each arm" if trained > counted else ""
    return f"{pluralize(trained or counted, 'run')}{more}{answer.ended and f'; {answer.ended}'}."


def paragraphs(texts: Sequence[str]) -> Markup:
    """Texts, each a paragraph that begins with a capital and ends with a stop."""
    lines = [f"{text[0].upper()}{text[1:].removesuffix('.')}." for text in texts if text]
    return Markup("").join(PARAGRAPH.format(line) for line in lines)


def differences(look: Look) -> Figure:
    """A row for each difference: its mean and interval, and the margin around zero."""
    design, rows = look.design, look.differences[::-1]
    scale, style = design.metric.scale, Style(design.norms)
    figure, (axes,) = new_figure(1, panel=(0.6 * WIDTH, 0.8 + 0.32 * max(len(rows), 3)))
    axes.axvline(0, color="#999999", linewidth=0.8)
    for y, row in enumerate(rows):
        color, margin = style.color[row.arm.norm], scale * row.margin
        axes.fill_betweenx([y - 0.4, y + 0.4], -margin, margin, color="#eeeeee", linewidth=0)
        if np.isfinite(row.interval).all():
            axes.plot(scale * np.array(row.interval), [y, y], color=color, linewidth=1.6)
        if math.isfinite(row.effect):
            axes.plot(scale * row.effect, y, "o", color=color)
    axes.set_yticks(range(len(rows)), [f"{row.arm.name}: {row.word}" for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        f"{design.metric.name} minus that of {design.baseline}{design.metric.unit and f', in {design.metric.unit}'}"
    )
    return figure
