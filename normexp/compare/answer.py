"""The answer of a comparison: as text, as a table, and as a page with figure, tables and the words for a paper."""

import hashlib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from normexp.compare.judged import OPEN, Look, Results
from normexp.compare.sentences import at, failed_runs, finding, headline, in_steps, methods, partners
from normexp.config.process import command
from normexp.format import pluralize
from normexp.report.drawing import WIDTH, Drawing, new_figure, save_all
from normexp.report.latex import booktabs
from normexp.report.page import list_html, save_page
from normexp.report.style import Style, drawing_style
from normexp.report.tables import grid, plain
from normexp.runs.files import write_json, write_text

PARAGRAPH = Markup("<p>{}</p>")
DESIGN = "design.json"
ONE = "One setting: this says nothing of other data, networks or lengths."


@dataclass(frozen=True)
class Answer:
    """What a comparison says: `print(answer)`, `answer.table`, `answer.look.differences`, `answer.page("folder")`.

    Attributes:
        ended: why a training ended.
        facts, notes, tables: what else the page's head, its section of failures and its folder hold.
    """

    look: Look
    results: Results
    notes: Sequence[str] = ()
    ended: str = ""
    facts: Sequence[str] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def __str__(self) -> str:
        lost = [failed_runs(self.look), partners(self.look)]
        ended = f"It ended because {self.ended}." if self.ended else ""
        return "\n".join(filter(None, [*finding(self.look), *lost, *self.notes, ended]))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each arm in each setting: its mean and its difference, both with intervals; margin and word."""
        look, design = self.look, self.look.design
        metric, judged = design.metric, {(own.norm, own.level): own for own in look.differences}
        rows = []
        for arm in look.arms:
            row = {
                "arm": arm.norm,
                design.level_name: arm.level,
                f"{metric.name}{metric.unit and f', {metric.unit}'}": metric.show(arm.mean),
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
        return table.loc[:, (table.astype(str) != "").any()]

    def page(self, out: str | Path, made_by: str = "normexp.compare") -> Path:
        """Write a page with its figure, tables as csv and LaTeX, and the paragraph for a paper. Returns its path."""
        out, look, design, table = Path(out), self.look, self.look.design, self.table
        with drawing_style():
            figure = Drawing(
                "differences",
                f"Difference in {design.metric.name} to {design.baseline}",
                "Mean over seeds with its interval at the level of one look; shaded: within the margin.",
                differences(look),
            )
            pictures = save_all([figure], out / "figures", made_by, pdf=True)
        runs, text = out / "cache" / "runs", methods(look, self.ended)
        more = f"Curves and every rate: {command('report')} {shlex.quote(str(runs))}" if runs.exists() else ""
        lost = list(filter(None, [failed_runs(look), partners(look)])) or ["No run failed."]
        title = "Rates and failures" if design.rates else "What failed"
        names = {"level": design.level_name} | (
            {"arm": "norm", "level": "batch_size"} if design.of_sizes else {}
        )
        tables = {"runs": self.results.runs, **self.tables}
        tables = {f"{name}.csv": own.rename(columns=names) for name, own in tables.items()}
        page = save_page(
            out, title=design.name, facts=[*self.facts, pluralize(look.seeds, "seed")], finding=headline(look),
            cautions=[ONE] if len(design.levels) == 1 or design.of_sizes else [], pictures=pictures, provenance=[],
            sections=[
                {"title": "Differences", "id": "differences", "html": list_html(table), "figures": [figure]},
                {"title": title, "id": "failed", "html": paragraphs([*self.notes, *lost])},
                {"title": "For a paper", "id": "paper", "html": paragraphs([text, more])},
            ],
            runs_text=f"{pluralize(len(self.results.runs), 'run')}{self.ended and f'; {self.ended}'}.",
            made_by=made_by, tables={"comparison.csv": table} | tables,
        )  # fmt: skip
        head, rows = [str(name) for name in table.columns], table.astype(str).to_numpy().tolist()
        write_text(out / "tables" / "comparison.tex", booktabs(head, rows))
        lines = grid([head, ["---"] * len(head), *([plain(cell) for cell in row] for row in rows)])
        parts = (f"# {plain(design.name)}", plain(headline(look)), lines, plain(text))
        write_text(out / "report.md", "\n\n".join(parts) + "\n")
        return page


def own_folder(out: Path, name: str, compared: Any) -> Path:
    """out/NAME, or out/NAME-2, ... where that has the page of another comparison. It notes whose page it has."""
    digest, number, place = hashlib.sha256(json.dumps(compared).encode()).hexdigest(), 1, out / name
    while (place / DESIGN).exists() and json.loads((place / DESIGN).read_text()).get("digest") != digest:
        number += 1
        place = out / f"{name}-{number}"
    place.mkdir(parents=True, exist_ok=True)
    write_json(place / DESIGN, {"digest": digest, "compared": compared})
    return place


def paragraphs(texts: Sequence[str]) -> Markup:
    """Texts, each a paragraph."""
    return Markup("").join(PARAGRAPH.format(text) for text in texts if text)


def differences(look: Look) -> Figure:
    """A row for each difference: its mean and interval, and the margin around zero."""
    design, rows = look.design, look.differences[::-1]
    scale, style = design.metric.scale, Style(design.norms)
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
    axes.set_xlabel(
        f"{design.metric.name} minus that of {design.baseline}{design.metric.unit and f', in {design.metric.unit}'}"
    )
    return figure
