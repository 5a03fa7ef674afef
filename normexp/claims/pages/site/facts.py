"""The content of one claim's page as plain values, from the claim, its verdict, the registry and the ledger."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from normexp.claims.evidence.curves import bank_curves, curves_of, ledger_of, own_curves, setting_names
from normexp.claims.evidence.stored import LEDGER, OWN_LEDGER
from normexp.claims.judge.verdict_text import counts, describe_effect, describe_question, with_scope
from normexp.claims.pages.figure import KINDS, number
from normexp.claims.pages.site.drawings import forest, learning, over_rate
from normexp.claims.pages.verdicts_page import status
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import Row, subject_of
from normexp.format import pluralize
from normexp.report.style import Style

KEPT = Path("docs") / "evidence" / "verdicts"
PROTOCOLS = Path("docs") / "evidence" / "protocols"
NO_CURVES = {
    "law": "the sentence is about formulas, and nothing was trained",
    "initialization": "the networks were examined before training",
    "training": "only the final values of these runs were kept",
}
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
        "registered": registrations(claim, registry, root),
    }
    if verdict is None:
        return plain
    ledger, names = ledger_of(claim, verdict, root), setting_names(claim)
    curves = curves_of(claim, verdict, root)
    arms = [arm for runs in ledger.values() for arm in runs["norm"]]
    colors = {
        arm: color.lower().lstrip("#") for arm, color in Style(list(dict.fromkeys(arms))).colour.items()
    }
    kept = [f"{claim.id}{end}" for end in (".json", ".csv.gz") if (root / KEPT / f"{claim.id}{end}").exists()]
    return plain | {
        **dict(zip(("shown", "asked"), shown_and_asked(verdict), strict=True)),
        "pluralize": pluralize,
        "forest": forest(verdict, names),
        "names": names,
        "effect": effect_in_words(verdict["comparison"]),
        "table": means_table(verdict, names),
        "rates": [
            over_rate(runs, names[name], colors) for name, runs in ledger.items() if runs["lr"].nunique() > 1
        ],
        "curves": [learning(means, names[name], colors) for name, means in curves.items()],
        "no_curves": NO_CURVES[claim.evidence],
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


def shown_and_asked(verdict: dict[str, Any]) -> tuple[str, str]:
    """The numbers and the question, in words; of an effect of logarithms the factors too."""
    asked = describe_question(verdict["comparison"])
    comparison = verdict["comparison"]
    log = comparison.get("log") and "margin" in comparison
    if log:
        sign = -1 if comparison["kind"] == "smaller" else 1
        asked += f", a factor of {number(math.exp(sign * comparison['margin']))}"
    if verdict["settings"]:
        return "; ".join(counts(own, drawn=verdict["drawn"]) for own in verdict["comparisons"]), asked
    values = [float(verdict["effect"]), *map(float, verdict["interval"])]
    shown = "{}, interval {} to {}".format(*map(number, values))
    if log:
        shown += ", in logarithms: a factor of {}, {} to {}".format(*(number(math.exp(v)) for v in values))
    return shown, asked


def effect_in_words(comparison: dict[str, Any]) -> str:
    """The effect, for the caption of the drawing."""
    return "every value" if comparison["kind"] == "every" else describe_effect(comparison).removesuffix(" =")
