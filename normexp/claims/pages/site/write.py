"""Write the site: `index.html`, `claims/<id>.html`, and the runs and protocols that they link to; what each page shows
comes as plain values from the claim, its verdict, the registry and the ledger."""

import math
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence.curves import (
    bank_curves,
    curves_of,
    kinds_of_settings,
    ledger_of,
    own_curves,
    setting_names,
)
from normexp.claims.evidence.stored import KEPT, LEDGER, OWN_LEDGER, PLACE
from normexp.claims.judge.plain_words import BEGUN, capital, counts, in_words, with_arm_words, with_scope
from normexp.claims.pages import status
from normexp.claims.pages.figure import COLORS, kind_of, number
from normexp.claims.pages.findings import MOST, QUESTIONS
from normexp.claims.pages.site.drawings import ENVIRONMENT, forest, learning, over_rate
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import REGISTRY, Row, read_registry, subject_of
from normexp.claims.spec.select import OTHER, TOPICS, topic
from normexp.format import pluralize
from normexp.report.drawing import dark_colors
from normexp.report.style import FREE, OWN, Style

# Where a sentence comes from: a paper by its authors and year, or another source by its number.
PAPER = re.compile(
    r"[A-Z][a-z]+(?:, [A-Z][a-z]+)*(?: et al\.)? \d{4}|document \d{3}|arXiv \d{4}\.\d{5}|pytorch issue \d+"
)


def chosen(claim: Claim, group: str) -> list[str]:
    """The models, or data sets, that a claim names in any setting or arm."""
    lists = [claim.fixed, *claim.settings.values(), *claim.arms.values()]
    words = [word for overrides in lists if isinstance(overrides, list) for word in overrides]
    return sorted({word.partition("=")[2] for word in words if str(word).startswith(f"{group}=")})


def index_row(claim: Claim, verdict: dict[str, Any] | None) -> dict[str, Any]:
    """One row of the index, with the values by which it is filtered."""
    word = status(claim, verdict)
    shown = with_scope(verdict) if verdict else word
    says, _, more = shown.partition(" (")
    if verdict is None:
        scope = "no verdict"
    elif verdict["evidence"] == "law":
        scope = "mathematics"
    else:
        scope = "several settings" if verdict["settings"] else "one setting"
    return {
        "id": claim.id,
        "sentence": claim.sentence,
        "source": claim.source,
        "word": word,
        "shown": shown,
        "says": says,
        "more": more.replace(")", "", 1),
        "paper": sorted(set(PAPER.findall(claim.source))) or ["other"],
        "kind": claim.kind or "not said",
        "topic": topic(claim),
        "answer": capital(in_words(verdict)) if verdict else "",
        "evidence": claim.evidence,
        "scope": scope,
        "model": chosen(claim, "model"),
        "data": chosen(claim, "data"),
        "tone": kind_of(verdict) if verdict else "none",
    }


def means_table(
    verdict: dict[str, Any], names: Mapping[str, str]
) -> tuple[list[str], list[tuple[str, list[str]]]] | None:
    """(arms, rows of a setting or level with its values): the mean of each arm."""
    if not (arms := verdict.get("arms")):
        return None
    places = dict.fromkeys(place for means in arms.values() for place in means)
    return list(arms), [
        (names.get(place, place) or "all", [_shown(means.get(place)) for means in arms.values()])
        for place in places
    ]


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return number(float(value)) if math.isfinite(float(value)) else "none trained"


def facts(
    claim: Claim, verdict: dict[str, Any] | None, registry: Iterable[Row], root: Path
) -> dict[str, Any]:
    """Everything that the template of a claim's page shows."""
    subject = subject_of(claim.id, claim.budget)
    rows = {row.file: row for row in registry if row.subject == subject}
    plain = {
        "claim": claim,
        "row": index_row(claim, verdict),
        "kinds": kinds_of_settings(claim),
        "registered": rows,  # the first one and its amendments, by the file of their protocol
    }
    if verdict is None or verdict["verdict"] == BEGUN:
        files = files_of(claim, rows, (), root)
        return plain | {"verdict": None, "files": {key: files[key] for key in rows if key in files}}
    verdict, ledger, names = with_arm_words(verdict), ledger_of(claim, verdict, root), setting_names(claim)
    arms = dict.fromkeys(arm for runs in ledger.values() for arm in runs["norm"])
    colors = {arm: color.lower().lstrip("#") for arm, color in Style(list(arms)).colour.items()}
    runs = {
        names[name]: setting_runs for name, setting_runs in ledger.items() if setting_runs["lr"].nunique() > 1
    }
    means = {names[name]: curve for name, curve in curves_of(claim, verdict, root).items()}
    return plain | {
        "verdict": verdict,
        "counts": counts(verdict) if verdict["settings"] else [],
        "pluralize": pluralize,
        "forest": forest(verdict, names, claim.better),
        "table": means_table(verdict, names),
        "rates": over_rate(runs, colors) if runs else "",
        "curves": learning(means, colors) if means else "",
        "keys": colors.items(),
        "files": files_of(claim, rows, ledger, root),
    }


def files_of(claim: Claim, registered: Iterable[str], settings: Iterable[str], root: Path) -> dict[str, Path]:
    """Place in the site -> the file that a page links to: protocols, runs that a verdict rests on, curves, values."""
    files = {place: PLACE / place for place in registered}
    for name in settings:
        files[f"runs/{name}.csv"] = LEDGER / f"{name}.csv"
        files[f"runs/{name}.curves.csv.gz"] = bank_curves(LEDGER, name)
    files[f"runs/{claim.id}-own.csv"] = OWN_LEDGER / claim.id / "runs.csv"
    files[f"runs/{claim.id}-own.curves.csv.gz"] = own_curves(OWN_LEDGER, claim.id)
    files |= {f"values/{claim.id}{end}": KEPT / f"{claim.id}{end}" for end in (".json", ".csv.gz")}
    return {place: root / path for place, path in files.items() if (root / path).exists()}


def by_topic(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The chapters of the index: the questions of the front page that are judged, then every claim by its topic."""
    first = {row["id"]: row for row in rows if row["says"] and row["tone"] != "none"}
    chapters = [("What is known", [first[name] for name in QUESTIONS if name in first][:MOST])]
    chapters += [(name, [row for row in rows if row["topic"] == name]) for name in (*TOPICS, OTHER)]
    return [(name, chapter_rows) for name, chapter_rows in chapters if chapter_rows]


FILTERS = {
    "topic": "topic",
    "word": "word",
    "scope": "scope",
    "paper": "paper or document",
    "kind": "whose sentence",
    "evidence": "evidence",
    "model": "model",
    "data": "data",
}


def write_site(
    folder: Path, claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]], root: Path
) -> str:
    """Write every page. `root` holds `docs/evidence`. Returns a line on what was written."""
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    registry = read_registry(root / REGISTRY)
    dark = dark_colors([*OWN.values(), *FREE, *COLORS.values()])
    rows = [index_row(claim, verdicts.get(name)) for name, claim in claims.items()]
    table = pd.DataFrame(rows, columns=list(FILTERS))  # an entry may be a list
    index: dict[str, Any] = {
        "rows": rows,
        "chapters": by_topic(rows),
        "filters": FILTERS,
        "options": {name: sorted(set(table[name].explode().dropna())) for name in FILTERS},
        "counts": Counter(row["word"] for row in rows).most_common(),
    }
    styles = (ENVIRONMENT.get_template(f"{name}.css.j2").render(dark=dark) for name in ("page", "site"))
    (folder / "style.css").write_text("".join(styles))
    (folder / "index.html").write_text(ENVIRONMENT.get_template("index.html.j2").render(index))
    page = ENVIRONMENT.get_template("claim.html.j2")
    for name, claim in claims.items():
        context = facts(claim, verdicts.get(name), registry, root)
        (folder / "claims" / f"{name}.html").write_text(page.render(context))
        for place, path in context["files"].items():
            (folder / place).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / place)
    return f"{folder / 'index.html'}: {len(claims)} claims, {len(verdicts)} verdicts"
