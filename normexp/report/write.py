"""One study's report: page, figures, tables and Markdown in a folder."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd

from normexp.report.figure import Skipped, save_all
from normexp.report.figures import FIGURES
from normexp.report.fonts import families
from normexp.report.ledgers import open_runs
from normexp.report.page import blocks, comparison_html, list_html, picture, render
from normexp.report.provenance import all_runs, cautions, source
from normexp.report.study import Study, label
from normexp.report.style import SETTINGS, Style
from normexp.report.tables import choose_baseline, comparison, markdown


def write_report(
    study: Study, out: Path, *, baseline: str | None = None, refresh: int | None = None, made_by: str = ""
) -> Path:
    """Write `index.html`, `report.md`, `figures/` and `tables/` under `out`; returns the page's path.

    Args:
        baseline: the arm that paired differences refer to.
        refresh: seconds after which a browser loads the page again, while a sweep runs.
        made_by: the command, for the page's foot.
    """
    baseline = choose_baseline(study, baseline)
    table, style = comparison(study, baseline), Style(study.arms)
    foot = source(study)
    _ = study.metrics  # a damaged file shows here, before anything is written
    sections, svgs = [], {}
    with mpl.rc_context({**SETTINGS, "font.family": families()}):
        for title, makers in FIGURES.items():
            shown = [item for make in makers for item in make(study, style)]
            shown.sort(key=lambda item: isinstance(item, Skipped))
            svgs |= save_all(shown, out / "figures", foot)
            sections.append({"title": title, "id": title.split()[-1].lower(), "blocks": blocks(shown)})
    sections[0]["table"] = comparison_html(study, table, baseline, style)

    tables = {"comparison.csv": table, "runs.csv": study.summaries.drop(columns=["key"])}
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        rows.to_csv(out / "tables" / name, index=False)
    text = f"# {study.name}\n\n{markdown(study, table, baseline)}\n\n```\n{study.command}\n```\n"
    (out / "report.md").write_text(text)
    page = render(
        "page.html.j2", title=heading(study), facts=facts(study), command=study.command, cautions=cautions(study),
        sections=sections, picture=lambda drawing: picture(svgs, drawing), lists=lists(study), source=foot,
        runs_text=runs_text(study), made_by=made_by, tables=tables, refresh=refresh,
    )  # fmt: skip
    (out / "index.html").write_text(page)
    return out / "index.html"


def heading(study: Study) -> str:
    words = study.name.replace("_", " ")
    return words[:1].upper() + words[1:]


def facts(study: Study) -> list[str]:
    """What all runs have in common, and the size of the grid."""
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


def counted(number: int, word: str) -> str:
    """1 seed, 3 seeds, 4 depths, 2 batch sizes"""
    return f"{number} {word}" if number == 1 else f"{number} {word}{'es' if word.endswith('s') else 's'}"


def runs_text(study: Study) -> str:
    counts = study.summaries["status"].value_counts()
    completed, diverged = (counts.get(status, 0) for status in ("completed", "diverged"))
    text = f"{counted(completed, 'run')} completed, {diverged} diverged (a loss not finite)"
    missing = len(open_runs(study.path, set(study.summaries["hash"])))
    return f"{text}, {missing} have no result." if missing else f"{text}."


def lists(study: Study) -> list[dict[str, Any]]:
    found = []
    if rows := open_runs(study.path, set(study.summaries["hash"])):
        found.append(
            {
                "title": f"{counted(len(rows), 'run')} without a result",
                "html": list_html(pd.DataFrame(rows)),
                "open": any(row["state"] == "failed" for row in rows),
            }
        )
    runs = all_runs(study)
    diverged = study.summaries[study.summaries["status"] == "diverged"]
    if len(diverged):
        columns = ["run", "arm", "seed", "lr", "convergence.divergence_step", "convergence.best"]
        found.append(
            {
                "title": counted(len(diverged), "diverged run"),
                "html": list_html(in_words(diverged[columns])),
                "open": len(diverged) <= 20,
            }
        )
    title = f"All {counted(len(runs), 'finished run')}"
    return [*found, {"title": title, "html": list_html(in_words(runs)), "open": False}]


def in_words(runs: pd.DataFrame) -> pd.DataFrame:
    names = {
        "convergence.best": "best validation accuracy",
        "convergence.divergence_step": "diverged at step",
    }
    return runs.rename(columns=lambda name: names.get(name, label(name)))
