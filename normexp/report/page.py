"""The page: one HTML file that contains everything it shows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from normexp.report.figure import Drawing, Skipped
from normexp.report.study import Study, label
from normexp.report.style import Style
from normexp.report.tables import cell_text, how_to_read

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, **values: Any) -> Markup:
    """A template of this folder, filled with values. It escapes them."""
    return Markup(ENVIRONMENT.get_template(template).render(**values))


def comparison_html(study: Study, table: pd.DataFrame, baseline: str, style: Style) -> Markup:
    """The table of arms by levels."""
    rows, usual = [], table["n"].mode()[0]
    for arm, cells in table.groupby("arm", sort=False):
        texts = []
        for _, cell in cells.iterrows():
            text = cell_text(cell, study.metric)
            if cell["n"] == usual and not cell["diverged"]:
                text["remarks"] = ""
            if study.rate_varies and cell["runs"]:
                text["remarks"] = f"{text['remarks']} lr {cell['lr']:g}".strip()
            texts.append({**text, "best": cell["best"], "warn": bool(cell["diverged"] or not cell["runs"])})
        rows.append({"arm": arm, "color": style.colour[arm], "baseline": arm == baseline, "cells": texts})
    heads = [f"{level:g}" for level in study.levels] or [label(study.metric)]
    note = f"{how_to_read(study, table)} Second line: paired difference to {baseline} with its interval."
    x = label(study.x) if study.x else None
    return render("table.html.j2", rows=rows, heads=heads, x=x, corner=label(study.metric), note=note)


def picture(
    drawing: Drawing, wide: Mapping[str, Markup], narrow: Mapping[str, Markup] | None = None
) -> Markup:
    """A figure in the page, in a shape for wide and one for narrow screens, with links to the files for print."""
    shapes = [("wide", wide), ("narrow", narrow)] if narrow else [("any", wide)]
    shown = Markup("").join(
        Markup('<div class="picture {0}">{1}</div>').format(name, found[drawing.name])
        for name, found in shapes
    )
    files = Markup(" ").join(
        Markup('<a href="figures/{0}.{1}" aria-label="{3} as {2}">{2}</a>').format(
            drawing.name, form, form.upper(), drawing.title
        )
        for form in ("png", "pdf")
    )
    return Markup("<figure>{0}<figcaption>{1} {2}</figcaption></figure>").format(
        shown, drawing.caption, files
    )


def blocks(figures: Sequence[Drawing | Skipped]) -> list[dict[str, Any]]:
    """The blocks of the template: a figure, a reason why there is none, or several figures that share a place."""
    found: list[dict[str, Any]] = []
    for item in figures:
        tab = getattr(item, "tab", None)
        if tab and found and found[-1].get("tabs"):
            found[-1]["tabs"].append(item)
        elif tab:
            title = item.title.partition(" by ")[0]
            found.append({"title": title, "name": f"tabs_{item.name}", "tabs": [item]})
        elif isinstance(item, Drawing):
            found.append({"title": item.title, "drawing": item})
        else:
            found.append({"title": item.title, "reason": item.reason})
    return found


def list_html(table: pd.DataFrame) -> Markup:
    """A plain table."""
    text = table.to_html(
        index=False, border=0, classes="list", na_rep="–", float_format=lambda value: f"{value:.4g}"
    )
    return Markup(text)  # pandas escapes the values
