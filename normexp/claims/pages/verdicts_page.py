"""`docs/verdicts.md`: every claim with its verdict, made only from verdicts and the yaml."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import yaml

from normexp.claims.judge.verdict import UNTUNED, VERDICT
from normexp.claims.judge.verdict_text import describe_question, with_scope
from normexp.claims.pages import markdown_table
from normexp.claims.pages.error_rates import error_rates
from normexp.claims.pages.multiplicity import by_kind, counts_by_kind, how_many_false, words_table
from normexp.claims.spec.claim import Claim
from normexp.config.folder import CONFIGS
from normexp.duration import duration

FIRST_WORDS = Path("docs") / "evidence" / "first_words.yaml"
EQUAL_ARMS = Path("docs") / "evidence" / "equal_arms.json"
PLACES = {"training": "at this scale", "initialization": "at initialization"}
SCOPES = (
    "a law",
    "in cases",
    "over settings, registered",
    "over settings, unregistered",
    "one setting, unregistered",
)
HEAD = """# Verdicts

<!-- Written by `python scripts/verify.py page=docs/verdicts.md`; changes by hand are lost. -->

A claim is one file in `configs/claim/`. Its verdict is one command, `python scripts/verify.py claim=<id>`.

- Supported: the whole interval lies beyond the smallest effect that matters, which was fixed beforehand.
- Refuted: the interval lies on the other side, or, for a claimed difference, within that margin. One counterexample
  refutes a universal sentence.
- Inconclusive: neither.
- "No counterexample in N cases": a universal sentence that no case refutes and mathematics does not prove.

After the word comes its scope: in how many settings and which, or "one setting, unregistered". `docs/claims.md` has the
rules. Intervals hold at 95%, or at more if a claim may be judged again with more seeds. For a universal sentence, the
range of all values replaces the interval; `nan` in it means that a value was not a number, which refutes the sentence.
Runs that diverged or never reached their target are compared by ranks, and give intervals with an infinite end.
If each arm has its own learning rate, "untuned" is the word with one learning rate for all, if that was asked too
(`tune=none`).
"""
SAID = """## Words that changed

The first verdicts rested on one small network each, most of them on one split of digits with 360 test images. A review
found what was wrong with them. "First" is the word at that time, "why" the reason to judge again. A word that stayed
stayed after the new test.
"""


def write_page(
    path: Path, claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]], root: Path = CONFIGS.parent
) -> str:
    """Write the page of all verdicts, or their site where `path` does not end in .md. A claim without a verdict counts
    as not yet run. `root` holds `docs/evidence`. Returns a line on the content."""
    if path.suffix != ".md":
        from normexp.claims.pages.site.write import write_site

        return write_site(path, claims, verdicts, root)
    real = root / EQUAL_ARMS
    text = page_of(claims, verdicts, json.loads(real.read_text()) if real.exists() else [])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    testable = sum(claim.evidence != "none" for claim in claims.values())
    return f"{path}: {len(verdicts)} verdicts of {testable} claims that can be tested"


def verdicts_in(budgets: dict[str, dict[str, Claim]], out: Path) -> dict[str, dict[str, Any]]:
    """The verdicts in a folder that have their claim's present protocol, by id."""
    each = {
        name: found(out / name, {budget: budgets[budget][name] for budget in budgets})
        for name in budgets["quick"]
    }
    return {name: verdict for name, verdict in each.items() if verdict}


def page_of(
    claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]], equal: list[dict[str, Any]]
) -> str:
    """The page as text. `equal` are comparisons of an arm with itself."""
    parts = [HEAD, counts(claims, verdicts), scopes(verdicts), surprises(claims, verdicts)]
    parts.append("## Sentences of the source documents\n\n" + table(claims, verdicts, "S"))
    parts.append("## Claims of papers\n\n" + table(claims, verdicts, "P"))
    parts.append("## Others\n\n" + table(claims, verdicts, "X"))
    words = {name: status(claim, verdicts.get(name)) for name, claim in claims.items()}
    parts.append(changed_words(first_words(), claims, verdicts))
    parts += [by_kind(claims, words), how_many_false(verdicts), error_rates(equal)]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def found(folder: Path, budgets: dict[str, Claim]) -> dict[str, Any] | None:
    """The verdict in a folder, if it has the claim's present protocol. `untuned_word` is the word of `tune=none`."""
    verdict = _read(folder)
    if verdict is None or budgets["quick"].evidence == "none":
        return None
    claim = budgets[verdict["budget"]]
    if verdict["protocol"] != claim.protocol:
        return None
    untuned = _read(folder / UNTUNED)
    word = None
    if untuned and untuned["protocol"] == dataclasses.replace(claim, tune=None).protocol:
        word = untuned["verdict"]
    return verdict | {"untuned_word": word}


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / VERDICT
    return json.loads(path.read_text()) if path.exists() else None


def surprises(claims: dict[str, Claim], verdicts: dict[str, dict]) -> str:
    """Verdicts that contradict mathematics, training claims that contradict their sentence, and sentences of papers
    that networks at initialization refute."""
    wrong = [v for v in verdicts.values() if v["as_expected"] is False]
    against = [v for v in verdicts.values() if _surprising(v)]
    lines = ["## What surprised us", ""]
    lines += [f"- **{v['id']}** is {v['verdict']} where mathematics says {v['expected']}" for v in wrong]
    if not wrong:
        lines.append("- No verdict contradicts one that mathematics gives.")
    lines += [
        f"- **{v['id']}** {with_scope(v)}, {PLACES[v['evidence']]}: {v['sentence']} ({effect_of(v)})"
        + (f" {note}" if (note := claims[v["id"]].note.strip()) else "")
        for v in against
    ]
    return "\n".join(lines)


def _surprising(verdict: dict[str, Any]) -> bool:
    if verdict["evidence"] == "law":
        return False
    return verdict["verdict"] not in ("supported", verdict.get("expected"))


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


def counts(claims: dict[str, Claim], verdicts: dict[str, dict]) -> str:
    """The number of claims with each verdict, as a table in Markdown, and their cost."""
    words = {name: status(claim, verdicts.get(name)) for name, claim in claims.items()}
    rows = {}
    for letter, name in (("S", "source documents"), ("P", "papers"), ("X", "others")):
        own = {key: claim for key, claim in claims.items() if key.startswith(letter)}
        rows[name] = counts_by_kind(dict.fromkeys(own, name), words).get(name, {})
    exact = [seconds_of(verdict) for verdict in verdicts.values() if verdict["evidence"] != "training"]
    trained = [seconds_of(verdict) for verdict in verdicts.values() if verdict["evidence"] == "training"]
    return (
        words_table(rows)
        + "\n\nWith a verdict, even an inconclusive one: "
        + " and ".join(asked(claims, verdicts, letter) for letter in "SP")
        + f". What needs no training took {duration(sum(exact))}; the runs of training claims "
        + f"{duration(sum(trained))} of training, runs that claims share counted in each."
    )


def scopes(verdicts: dict[str, dict]) -> str:
    """For each kind of evidence, the number of verdicts over several settings, in one, in cases, or as a law."""
    rows: dict[str, dict[str, int]] = {}
    for verdict in verdicts.values():
        row = rows.setdefault(verdict["evidence"], dict.fromkeys(SCOPES, 0))
        row[scope_kind(verdict)] += 1
    table = [(name, *row.values()) for name, row in sorted(rows.items())]
    numbers = range(1, len(SCOPES) + 1)
    return "## Where words hold\n\n" + markdown_table(("evidence", *SCOPES), table, numbers)


def scope_kind(verdict: dict[str, Any]) -> str:
    """The one of `SCOPES` that a verdict has."""
    if verdict["settings"]:
        return SCOPES[3] if "unregistered" in verdict["scope"] else SCOPES[2]
    if " cases" in verdict["scope"]:
        return SCOPES[1]
    return SCOPES[4] if verdict["scope"] else SCOPES[0]


def asked(claims: dict[str, Claim], verdicts: dict[str, dict], letter: str) -> str:
    """The number of statements of the sources with a verdict. One statement may need several claims."""
    numbers = [
        {name[:3] for claim in some for name in claims[claim].covers if name[0] == letter}
        for some in (verdicts, claims)
    ]
    what = {"S": "statements of the source documents", "P": "claims of papers"}[letter]
    return f"{len(numbers[0])} of {len(numbers[1])} {what}"


def status(claim: Claim, verdict: dict[str, Any] | None) -> str:
    """The verdict's word, or why there is none."""
    if claim.evidence == "none":
        return "cannot be tested"
    return verdict["verdict"] if verdict else "not yet run"


def seconds_of(verdict: dict[str, Any]) -> float:
    """Seconds of a verdict. For training claims, those of all their runs, cached ones too."""
    return verdict["runs"]["training_seconds"] if verdict["evidence"] == "training" else verdict["seconds"]


def first_words(root: Path = CONFIGS.parent) -> dict[str, dict[str, str]]:
    """The word of each claim's first verdict and why it was judged again, by id; empty outside a checkout."""
    path = root / FIRST_WORDS
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def changed_words(
    first: dict[str, dict[str, str]], claims: dict[str, Claim], verdicts: dict[str, dict[str, Any]]
) -> str:
    """The section; empty if none of these claims has a first word.

    Args:
        first: as `first_words` gives it.
        claims, verdicts: of today, by id.
    """
    known = {name: was for name, was in first.items() if name in claims}
    if not known:
        return ""
    now = {name: verdicts.get(name) for name in known}
    rows = [
        (name, was["word"], was["why"], with_scope(now[name]) if now[name] else status(claims[name], None))
        for name, was in known.items()
    ]
    return SAID + "\n" + markdown_table(("claim", "first", "why", "now"), rows)
