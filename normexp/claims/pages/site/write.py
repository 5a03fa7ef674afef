"""Write the site: `index.html`, `claims/<id>.html`, and the runs and protocols that they link to; what each page shows
comes as plain values from the claim, its verdict, the registry and the ledger."""

import math
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from normexp.claims.evidence.curves import (
    bank_curves,
    curves_of,
    kinds_of_settings,
    ledger_of,
    own_curves,
    setting_names,
)
from normexp.claims.evidence.stored import KEPT, LEDGER, OWN_LEDGER, PLACE
from normexp.claims.judge.plain_words import BEGUN, capital, counts, in_words, with_scope
from normexp.claims.pages.figure import COLORS, KINDS, number
from normexp.claims.pages.findings import MOST, QUESTIONS
from normexp.claims.pages.site.drawings import ENVIRONMENT, forest, learning, over_rate
from normexp.claims.pages.verdicts_page import status
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import REGISTRY, Row, read_registry, subject_of
from normexp.claims.spec.select import OTHER, TOPICS, topic
from normexp.format import pluralize
from normexp.report.drawing import dark_colors
from normexp.report.style import FREE, OWN, Style

PROTOCOLS = PLACE / "protocols"
# Where a sentence comes from: a paper by its authors and year, or another source by its number.
PAPER = re.compile(
    r"[A-Z][a-z]+(?:, [A-Z][a-z]+)*(?: et al\.)? \d{4}|document \d{3}|arXiv \d{4}\.\d{5}|pytorch issue \d+"
)


def chosen(claim: Claim, group: str) -> list[str]:
    """The models, or data sets, that a claim names in any setting or arm."""
    lists = [claim.fixed, *claim.settings.values(), *claim.arms.values()]
    words = [word for own in lists if isinstance(own, list) for word in own]
    return sorted({word.partition("=")[2] for word in words if str(word).startswith(f"{group}=")})


def index_row(claim: Claim, verdict: dict[str, Any] | None) -> dict[str, Any]:
    """One row of the index, with the values by which it is filtered."""
    word = status(claim, verdict)
    shown = with_scope(verdict) if verdict else word
    says, _, more = shown.partition(" (")
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
        "scope": scope_of(verdict),
        "model": chosen(claim, "model"),
        "data": chosen(claim, "data"),
        "tone": KINDS.get(word, "open" if verdict else "none"),
    }


def scope_of(verdict: dict[str, Any] | None) -> str:
    """The scope of a word, in the few words of the filter."""
    if verdict is None:
        return "no verdict"
    if verdict["evidence"] == "law":
        return "mathematics"
    return "several settings" if verdict["settings"] else "one setting"


def means_table(
    verdict: dict[str, Any], names: Mapping[str, str]
) -> tuple[list[str], list[tuple[str, list[str]]]] | None:
    """(arms, rows of a setting or level with its values): the mean of each arm."""
    arms = verdict.get("arms")
    if not arms:
        return None
    places = list(dict.fromkeys(place for own in arms.values() for place in own))
    rows = [
        (names.get(place, place) or "all", [_shown(own.get(place)) for own in arms.values()])
        for place in places
    ]
    return list(arms), rows


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return number(float(value)) if math.isfinite(float(value)) else "none trained"


def registrations(claim: Claim, rows: Iterable[Row], root: Path) -> list[dict[str, Any]]:
    """The claim's rows in the registry, the first one and its amendments, with the file of each protocol."""
    subject = subject_of(claim.id, claim.budget)
    found = []
    for row in rows:
        if row.subject == subject:
            name = f"{subject.replace(' ', '-')}-{row.protocol[:12]}.json"
            kept = (root / PROTOCOLS / name).exists()
            found.append({"row": row, "file": name if kept else ""})
    return found


def facts(
    claim: Claim, verdict: dict[str, Any] | None, registry: Iterable[Row], root: Path
) -> dict[str, Any]:
    """Everything that the template of a claim's page shows."""
    row = index_row(claim, verdict)
    plain = {
        "claim": claim,
        "row": row,
        "verdict": verdict,
        "kinds": kinds_of_settings(claim),
        "registered": registrations(claim, registry, root),
    }
    if verdict is None or verdict["verdict"] == BEGUN:
        return plain | {"verdict": None}
    ledger, names = ledger_of(claim, verdict, root), setting_names(claim)
    curves = curves_of(claim, verdict, root)
    arms = [arm for runs in ledger.values() for arm in runs["norm"]]
    colors = {
        arm: color.lower().lstrip("#") for arm, color in Style(list(dict.fromkeys(arms))).colour.items()
    }
    kept = [f"{claim.id}{end}" for end in (".json", ".csv.gz") if (root / KEPT / f"{claim.id}{end}").exists()]
    runs = {names[name]: own for name, own in ledger.items() if own["lr"].nunique() > 1}
    means = {names[name]: own for name, own in curves.items()}
    return plain | {
        "counts": counts(verdict) if verdict["settings"] else [],
        "pluralize": pluralize,
        "forest": forest(verdict, names, claim.better),
        "table": means_table(verdict, names),
        "rates": over_rate(runs, colors) if runs else "",
        "curves": learning(means, colors) if means else "",
        "keys": colors.items(),
        "runs": runs_kept(claim, ledger, root),
        "kept": kept,
        "failures": verdict.get("failures") or {},
    }


def runs_kept(claim: Claim, settings: Iterable[str], root: Path) -> dict[str, Path]:
    """Name of a download -> the file in the repository with runs that a verdict rests on, or their curves."""
    files = {}
    for name in settings:
        files[f"{name}.csv"] = LEDGER / f"{name}.csv"
        files[f"{name}.curves.csv.gz"] = bank_curves(LEDGER, name)
    files[f"{claim.id}-own.csv"] = OWN_LEDGER / claim.id / "runs.csv"
    files[f"{claim.id}-own.curves.csv.gz"] = own_curves(OWN_LEDGER, claim.id)
    return {name: path for name, path in files.items() if (root / path).exists()}


def by_topic(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The chapters of the index: the questions of the front page that are judged, then every claim by its topic."""
    first = {row["id"]: row for row in rows if row["says"] and row["tone"] != "none"}
    found = [("What is known", [first[name] for name in QUESTIONS if name in first][:MOST])]
    topics = [*TOPICS, OTHER]
    found += [(name, [row for row in rows if row["topic"] == name]) for name in topics]
    return [(name, own) for name, own in found if own]


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
    options = {name: sorted({one for row in rows for one in _listed(row[name])}) for name in FILTERS}
    style = (
        ENVIRONMENT.get_template("page.css.j2").render(dark=dark)
        + ENVIRONMENT.get_template("site.css.j2").render()
    )
    (folder / "style.css").write_text(style)
    index = ENVIRONMENT.get_template("index.html.j2")
    (folder / "index.html").write_text(
        index.render(
            rows=rows, chapters=by_topic(rows), filters=FILTERS, options=options, counts=words_counted(rows)
        )
    )
    page = ENVIRONMENT.get_template("claim.html.j2")
    for name, claim in claims.items():
        own = facts(claim, verdicts.get(name), registry, root)
        (folder / "claims" / f"{name}.html").write_text(page.render(**own))
        take_along(own, root, folder)
    return f"{folder / 'index.html'}: {len(claims)} claims, {len(verdicts)} verdicts"


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def words_counted(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The number of claims with each word, the most frequent first."""
    return Counter(row["word"] for row in rows).most_common()


def take_along(own: dict[str, Any], root: Path, folder: Path) -> None:
    """Copy the files that a page links to."""
    files = [(path, f"runs/{name}") for name, path in own.get("runs", {}).items()]
    files += [(KEPT / name, f"values/{name}") for name in own.get("kept", ())]
    files += [
        (PROTOCOLS / one["file"], f"protocols/{one['file']}") for one in own["registered"] if one["file"]
    ]
    for path, place in files:
        (folder / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / path, folder / place)
