"""`docs/verdicts.md`: every claim with its verdict, made only from verdicts and the yaml."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.judge.verdict import UNTUNED, VERDICT
from normexp.claims.judge.verdict_text import describe_question, with_scope
from normexp.claims.pages import markdown_page, markdown_table
from normexp.claims.pages.error_rates import chance, expected_false, most_errors, page_rows
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_checks import KINDS
from normexp.config.folder import CONFIGS
from normexp.format import duration

EVIDENCE = Path("docs") / "evidence"
FIRST_WORDS, EQUAL_ARMS, CALIBRATION = (
    EVIDENCE / name for name in ("first_words.yaml", "equal_arms.json", "calibration.json")
)
SCOPES = (
    "a law",
    "in cases",
    "over settings, registered",
    "over settings, unregistered",
    "one setting, unregistered",
)
WORDS = {  # as a column says it
    "supported": "supported",
    "refuted": "refuted",
    "varies": "varies across settings",
    "depends": "depends on X",
    "no counterexample": "no counterexample",
    "inconclusive": "inconclusive",
    "not yet run": "not yet run",
    "cannot be tested": "cannot be tested",
}
SOURCES = {"S": "source documents", "P": "papers", "X": "others"}


def write_page(
    path: Path, claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]], root: Path = CONFIGS.parent
) -> str:
    """Write the page of all verdicts, or their site where `path` does not end in .md. A claim without a verdict counts
    as not yet run. `root` holds `docs/evidence`. Returns a line on the content."""
    if path.suffix != ".md":
        from normexp.claims.pages.site.write import write_site

        return write_site(path, claims, verdicts, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page_of(claims, verdicts, root))
    testable = sum(claim.evidence != "none" for claim in claims.values())
    return f"{path}: {len(verdicts)} verdicts of {testable} claims that can be tested"


def page_of(
    claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]], root: Path = CONFIGS.parent
) -> str:
    """The page as text, with what `root` has of first words, error rates and comparisons of an arm with itself."""
    words = {name: status(claim, verdicts.get(name)) for name, claim in claims.items()}
    by_source = {name: [words[key] for key in claims if key[0] == letter] for letter, name in SOURCES.items()}
    by_kind = {
        kind or "not said": [words[key] for key, claim in claims.items() if claim.kind == kind]
        for kind in (*KINDS, "")
    }
    scopes: dict[str, Counter[str]] = {}
    for verdict in verdicts.values():
        scopes.setdefault(verdict["evidence"], Counter())[scope_kind(verdict)] += 1
    seconds = {True: 0.0, False: 0.0}
    for verdict in verdicts.values():
        seconds[verdict["evidence"] == "training"] += seconds_of(verdict)
    first = _read(root / FIRST_WORDS) or {}
    return markdown_page(
        "verdicts.md.j2",
        claims=claims,
        verdicts=list(verdicts.values()),
        by_source=_counts(by_source),
        by_kind=_counts({kind: own for kind, own in by_kind.items() if own}),
        asked={letter: asked(claims, verdicts, letter) for letter in "SP"},
        exact=duration(seconds[False]),
        trained=duration(seconds[True]),
        scopes=_table_of("evidence", SCOPES, dict(sorted(scopes.items()))),
        tables={letter: table(claims, verdicts, letter) for letter in SOURCES},
        changed=[
            (name, was["word"], was["why"], with_scope(verdicts[name]) if name in verdicts else words[name])
            for name, was in first.items()
            if name in claims
        ],
        decidable=page_rows(verdicts.values()),
        older=sum(v["evidence"] == "training" and v["p_adjusted"] is None for v in verdicts.values()),
        calibration=_read(root / CALIBRATION),
        equal_arms=_read(root / EQUAL_ARMS),
        **{own.__name__: own for own in (with_scope, effect_of, expected_false, most_errors, chance)},
    )


def _read(path: Path) -> Any:
    """A file of JSON or yaml; None outside a checkout, which has none."""
    if not path.exists():
        return None
    return json.loads(path.read_text()) if path.suffix == ".json" else yaml.safe_load(path.read_text())


def _counts(rows: Mapping[str, Iterable[str]]) -> str:
    """One row per name, with the number of times that it has each word."""
    found = {name: Counter(WORDS[short(word)] for word in words) for name, words in rows.items()}
    return _table_of("", tuple(WORDS.values()), found)


def _table_of(corner: str, columns: tuple[str, ...], rows: Mapping[str, Counter[str]]) -> str:
    table = [(name, *(row[one] for one in columns)) for name, row in rows.items()]
    return markdown_table((corner, *columns), table, range(1, len(columns) + 1))


def short(word: str) -> str:
    """The first part of a word: "depends on the data" is a `depends`, "varies across settings" a `varies`."""
    first = word.split()[0]
    return first if first in ("depends", "varies") else word


def table(claims: dict[str, Claim], verdicts: dict[str, dict], letter: str) -> str:
    """The claims whose id starts with `letter`, one row each, in Markdown."""
    own = [claim for claim in claims.values() if claim.id.startswith(letter)]
    columns = ("id", "sentence", "verdict", "effect [interval]", "asked", "seeds", "tier, cost", "command")
    return markdown_table(columns, [_claim_row(claim, verdicts.get(claim.id)) for claim in own], numbers=(5,))


def _claim_row(claim: Claim, verdict: dict[str, Any] | None) -> tuple:
    whose = f", {claim.kind}" if claim.kind else ""
    sentence = f"{cell(claim.sentence)} *{cell(claim.source)}{whose}*" + (
        f" {cell(claim.note)}" if claim.note else ""
    )
    if verdict is None:
        command = "" if claim.evidence == "none" else f"`python scripts/verify.py claim={claim.id}`"
        return claim.id, sentence, status(claim, None), cell(claim.reason), "", "", "", command
    word = f"**{cell(with_scope(verdict))}**"
    word += f" (untuned: {verdict['untuned_word']})" if verdict["untuned_word"] else ""
    question = cell(verdict.get("asked") or describe_question(verdict["comparison"]))
    cost = f"{verdict['budget']}, {duration(seconds_of(verdict))}"
    command = f"`{verdict['command']}`"
    return claim.id, sentence, word, effect_of(verdict), question, verdict["n_seeds"], cost, command


def effect_of(verdict: dict[str, Any]) -> str:
    """Effect and interval of a verdict, with its limits."""
    low, high = (f"{float(end):.3g}" for end in verdict["interval"])
    more = f"; {verdict['note']}" if verdict["verdict"] == "inconclusive" and verdict["note"] else ""
    edge = verdict.get("learning_rates_at_edge")
    narrow = f"; learning rate at the edge of the grid: {', '.join(edge)}" if edge else ""
    paper = verdict.get("paper_effect")
    beside = f"; paper: {paper['value']} ({paper['where']}; {paper['size']})" if paper else ""
    return f"{float(verdict['effect']):.3g} [{low}, {high}]{more}{narrow}{beside}"


def cell(text: str) -> str:
    """Text escaped for a table in Markdown."""
    return text.replace("|", "\\|").replace("*", "\\*")


def scope_kind(verdict: dict[str, Any]) -> str:
    """The one of `SCOPES` that a verdict has."""
    if verdict["settings"]:
        return SCOPES[3] if "unregistered" in verdict["scope"] else SCOPES[2]
    if " cases" in verdict["scope"]:
        return SCOPES[1]
    return SCOPES[4] if verdict["scope"] else SCOPES[0]


def asked(claims: dict[str, Claim], verdicts: dict[str, dict], letter: str) -> str:
    """How many statements of the sources have a verdict, of how many. One statement may need several claims."""
    some, all_of = (
        {name[:3] for claim in own for name in claims[claim].covers if name[0] == letter}
        for own in (verdicts, claims)
    )
    return f"{len(some)} of {len(all_of)}"


def status(claim: Claim, verdict: dict[str, Any] | None) -> str:
    """The verdict's word, or why there is none."""
    if claim.evidence == "none":
        return "cannot be tested"
    return verdict["verdict"] if verdict else "not yet run"


def seconds_of(verdict: dict[str, Any]) -> float:
    """Seconds of a verdict. For training claims, those of all their runs, cached ones too."""
    return verdict["runs"]["training_seconds"] if verdict["evidence"] == "training" else verdict["seconds"]


def verdicts_in(claims: dict[str, Claim], out: Path) -> dict[str, dict[str, Any]]:
    """The verdicts in a folder that have their claim's present protocol, by id."""
    each = {name: found(out / name, claim) for name, claim in claims.items()}
    return {name: verdict for name, verdict in each.items() if verdict}


def found(folder: Path, claim: Claim) -> dict[str, Any] | None:
    """The verdict in a folder, if it has the claim's present protocol. `untuned_word` is the word of `tune=none`."""
    verdict = _read(folder / VERDICT)
    if verdict is None or claim.evidence == "none" or verdict["protocol"] != claim.protocol:
        return None
    untuned = _read(folder / UNTUNED / VERDICT)
    word = None
    if untuned and untuned["protocol"] == dataclasses.replace(claim, tune=None).protocol:
        word = untuned["verdict"]
    return verdict | {"untuned_word": word}
