"""The report of one study: page, figures, tables and Markdown in a folder."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from markupsafe import Markup

from normexp.counted import counted
from normexp.report.figure import Skipped, narrow_all, save_all
from normexp.report.figures import FIGURES
from normexp.report.finding import finding
from normexp.report.fonts import families
from normexp.report.markdown_text import fenced, plain
from normexp.report.page import blocks, comparison_html, picture, render
from normexp.report.provenance import cautions, source
from normexp.report.room import narrow
from normexp.report.run_lists import lists, runs_text
from normexp.report.study import Study, label
from normexp.report.style import SETTINGS, Style
from normexp.report.svg import dark_colors
from normexp.report.tables import choose_baseline, comparison, markdown


def write_report(
    study: Study, out: Path, *, baseline: str | None = None, refresh: int | None = None, made_by: str = ""
) -> Path:
    """Write `index.html`, `report.md`, `figures/` and `tables/` under `out`. Returns the page's path.

    Args:
        baseline: the arm of the paired differences.
        refresh: seconds after which a browser loads the page again, while a sweep runs.
        made_by: the command, for the page's foot.
    """
    baseline = choose_baseline(study, baseline)
    table, style = comparison(study, baseline), Style(study.arms)
    foot = source(study)
    _ = study.metrics  # a damaged file shows here, before anything is written
    sections: list[dict[str, Any]] = []
    wide: dict[str, Markup] = {}
    slim: dict[str, Markup] = {}
    with mpl.rc_context({**SETTINGS, "font.family": families()}):
        for title, makers in FIGURES.items():
            shown = [item for make in makers for item in make(study, style)]
            shown.sort(key=lambda item: isinstance(item, Skipped))
            wide |= save_all(shown, out / "figures", foot)
            with narrow():
                slim |= narrow_all([item for make in makers for item in make(study, style)])
            sections.append({"title": title, "id": title.split()[-1].lower(), "blocks": blocks(shown)})
    sections[0]["table"] = comparison_html(study, table, baseline, style)

    tables = {"comparison.csv": table, "runs.csv": study.summaries.drop(columns=["key"])}
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        rows.to_csv(out / "tables" / name, index=False)
    notes = "".join(f"- {plain(line)}\n" for line in (runs_text(study), *cautions(study)))
    found = plain(finding(study, table, baseline))
    head, command = plain(study.name), fenced(study.command)
    text = f"# {head}\n\n{found}\n\n{markdown(study, table, baseline)}\n\n{notes}\n{command}\n"
    (out / "report.md").write_text(text)
    page = render(
        "page.html.j2", title=heading(study), facts=facts(study), cautions=cautions(study),
        sections=sections, picture=lambda drawing: picture(drawing, wide, slim), lists=lists(study), finding=found,
        dark=dark_colors(style.colour.values()), provenance=[foot],
        runs_text=runs_text(study), made_by=made_by, tables=tables, refresh=refresh,
    )  # fmt: skip
    (out / "index.html").write_text(page)
    return out / "index.html"


def heading(study: Study) -> str:
    """The title of a study's page."""
    words = study.name.replace("_", " ")
    return words[:1].upper() + words[1:]


def facts(study: Study) -> list[str]:
    """The values that all runs share, and the size of the grid."""
    rows = study.summaries
    first = rows.iloc[0]

    def common(column: str, form: str) -> list[str]:
        return (
            [form.format(first[column])] if column in rows and rows[column].nunique(dropna=False) == 1 else []
        )

    sizes = [counted(len(study.arms), "arm")]
    if study.x:
        sizes.append(counted(len(study.levels), label(study.x)))
    if study.rate_varies:
        sizes.append(counted(rows["lr"].nunique(), "learning rate"))
    sizes.append(counted(rows["seed"].nunique(), "seed"))
    length = (
        common("max_epochs", "epochs {:g}")
        if rows["max_steps"].isna().all()
        else common("max_steps", "steps {:g}")
    )
    return [
        f"{counted(len(rows), 'run')}: {' × '.join(sizes)}",
        *common("data", "{}"), *common("model", "{}"), *common("optimizer", "{}"), *common("lr", "learning rate {:g}"),
        *common("batch_size", "batch size {:g}"), *length,
    ]  # fmt: skip
