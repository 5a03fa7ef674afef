"""The report of one study: page, figures, tables and Markdown in a folder. The page contains everything it shows."""

import shlex
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from normexp.format import pluralize
from normexp.report import tables
from normexp.report.drawing import Drawing, Skipped, save_all
from normexp.report.figures import FIGURES
from normexp.report.finding import cautions, finding, source, stops_early
from normexp.report.latex import comparison_in_latex
from normexp.report.study import Study, label, open_study
from normexp.report.style import Style, drawing_style
from normexp.report.tables import plain
from normexp.runs.columns import networks
from normexp.runs.files import write_text
from normexp.runs.summary import MOST_LOSS

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


def report(
    folder: str | Path,
    *,
    metric: str = "test/accuracy",
    better: str | None = None,
    baseline: str | None = None,
    out: str | Path | None = None,
) -> Path:
    """Do what `normexp report FOLDER` does: write the page of the runs below a folder. Returns its path.

    Args:
        metric: a final value, or the last that runs logged.
        better: higher or lower, where the metric's name does not say it.
        baseline: the arm that differences refer to; default: none, if the study has it.
        out: a folder; default: `folder/report`.

    Raises:
        ValueError: with one line, where there is no page to write.
    """
    target = Path(out) if out else Path(folder) / "report"
    made_by = f"normexp report {shlex.quote(str(folder))}"
    return write_report(open_study(folder, metric, better=better), target, baseline=baseline, made_by=made_by)


def write_report(
    study: Study, out: Path, *, baseline: str | None = None, pdf: bool = False, made_by: str = ""
) -> Path:
    """Write `index.html`, `report.md`, `figures/` and `tables/` under `out`. Returns the page's path.

    Args:
        baseline: the arm of the paired differences.
        pdf: write the figures as PDF, too.
        made_by: the command, for the page's foot.
    """
    table, style = tables.comparison(study, baseline), Style(study.arms)
    foot = source(study)
    _ = study.metrics  # a damaged file shows here, before anything is written
    sections: list[dict[str, Any]] = []
    absent: list[Drawing | Skipped] = []
    pictures: dict[str, Markup] = {}
    with drawing_style():
        for title, makers in FIGURES.items():
            shown = [item for make in makers for item in make(study, style)]
            shown.sort(key=lambda item: isinstance(item, Skipped))
            if sections and all(isinstance(item, Skipped) for item in shown):
                absent += shown
                continue
            pictures |= save_all(shown, out / "figures", foot, pdf=pdf)
            sections.append({"title": title, "id": title.split()[-1].lower(), "figures": shown})
    if absent:
        sections.append({"title": "Not measured", "id": "absent", "figures": absent})
    sections[0]["table"] = comparison_cells(study, table, style)
    runs = study.summaries.drop(columns=["key", "level"])
    title = study.name.replace("_", " ")
    page = save_page(
        out, title=title[:1].upper() + title[1:], finding=finding(study, table), facts=facts(study),
        cautions=cautions(study), sections=sections, pictures=pictures, lists=lists(study), runs_text=runs_text(study),
        provenance=[foot], made_by=made_by, tables={"comparison.csv": table, "runs.csv": runs},
    )  # fmt: skip
    (out / "report.md").write_text(text_of(study, table))
    write_text(out / "tables" / "comparison.tex", comparison_in_latex(study, table))
    return page


def text_of(study: Study, table: pd.DataFrame) -> str:
    """The report as Markdown: finding, tables and cautions."""
    notes = "".join(f"- {plain(line)}\n" for line in (runs_text(study), *cautions(study)))
    parts = (plain(finding(study, table)), tables.markdown(study, table), notes, tables.fenced(study.command))
    return f"# {plain(study.name)}\n\n" + "\n\n".join(parts) + "\n"


def save_page(out: Path, template: str = "page.html.j2", **values: Any) -> Path:
    """Write `index.html` from a template, which escapes the values, and its `tables`. Returns its path."""
    for name, rows in values.get("tables", {}).items():
        (out / "tables").mkdir(parents=True, exist_ok=True)
        rows.to_csv(out / "tables" / name, index=False)
    write_text(out / "index.html", ENVIRONMENT.get_template(template).render(values))
    return out / "index.html"


def facts(study: Study) -> list[str]:
    """The values that all runs share, and the size of the grid."""
    rows = study.summaries.assign(network=networks(study.summaries))
    first = rows.iloc[0]

    def common(column: str, form: str) -> list[str]:
        same = column in rows and rows[column].nunique(dropna=False) == 1
        return [form.format(first[column])] if same else []

    sizes = [pluralize(len(study.arms), "arm")]
    if study.x:
        sizes.append(pluralize(len(study.levels), label(study.x)))
    if study.rate_varies:
        sizes.append(pluralize(rows["lr"].nunique(), "learning rate"))
    sizes.append(pluralize(rows["seed"].nunique(), "seed"))
    by_steps = rows["max_steps"].notna().any()
    most = "at most " if stops_early(rows) else ""
    return [
        f"{pluralize(len(rows), 'run')}: {' × '.join(sizes)}",
        *common("data", "{}"), *common("network", "{}"), *common("optimizer", "{}"),
        *common("lr", "learning rate {:g}"), *common("batch_size", "batch size {:g}"),
        *(common("max_steps", f"steps {most}{{:g}}") if by_steps else common("max_epochs", f"epochs {most}{{:g}}")),
    ]  # fmt: skip


def comparison_cells(study: Study, table: pd.DataFrame, style: Style) -> dict[str, Any]:
    """The table of arms by levels, for the template."""
    baseline = dict(zip(table["arm"], table["baseline"], strict=True))
    rows = [
        {"arm": arm, "color": style.color[arm], "baseline": arm == baseline[arm], "cells": cells}
        for arm, cells in tables.cells_of(study, table).items()
    ]
    difference = f"paired difference to {tables.of_what(table)}, {tables.TOGETHER}"
    note = f"{tables.how_to_read(study, table)} Second line: {difference}."
    x, corner = (label(study.x), label(study.metric)) if study.x else (None, "norm")
    usual = f"n={table['n'].mode()[0]}"
    return {
        "rows": rows,
        "heads": tables.heads(study)[1:],
        "x": x,
        "corner": corner,
        "note": note,
        "usual": usual,
    }


def list_html(table: pd.DataFrame) -> Markup:
    """A plain table. pandas escapes its values."""
    text = table.to_html(index=False, border=0, classes="list", na_rep="–", float_format=lambda v: f"{v:.4g}")
    return Markup(text)


def runs_text(study: Study) -> str:
    """How many runs completed, failed and are missing, as a sentence."""
    failed = int(study.summaries["failed"].sum())
    text = f"{pluralize(len(study.summaries) - failed, 'run')} completed, {failed} failed (a loss not finite, or a"
    text += f" final training loss above {MOST_LOSS:g} times that of guessing)"
    missing = len(study.open_runs)
    return f"{text}, {missing} have no result." if missing else f"{text}."


def lists(study: Study) -> list[dict[str, Any]]:
    """The lists behind that sentence. Every run stands in tables/runs.csv."""
    entries = []
    if rows := study.open_runs:
        title = f"{pluralize(len(rows), 'run')} without a result"
        entries.append({"title": title, "html": list_html(pd.DataFrame(rows))})
    lost = study.summaries[study.summaries["failed"]]
    if len(lost):
        rows = lost[["run", "arm", "seed", "lr", "status", "convergence.divergence_step", "convergence.best"]]
        entries.append({"title": pluralize(len(lost), "failed run"), "html": list_html(rows)})
    return entries
