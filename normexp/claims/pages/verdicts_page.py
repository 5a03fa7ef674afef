"""`docs/verdicts.md`: every claim with its verdict, made only from verdicts and the yaml."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from normexp.claims.judge.equal_arms import equal_arms
from normexp.claims.judge.error_rates import error_rates
from normexp.claims.judge.verdict import UNTUNED, VERDICT
from normexp.claims.judge.verdict_text import describe_question, with_scope
from normexp.claims.pages.changed_words import changed_words, first_words
from normexp.claims.pages.how_many_false import by_kind, how_many_false
from normexp.claims.pages.page_counts import counts, scopes, seconds_of, status
from normexp.claims.spec.claim import Claim
from normexp.duration import duration

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


def write_page(path: Path, budgets: dict[str, dict[str, Claim]], out: Path) -> str:
    """Write the page from the verdicts found in `out` and the claims of every budget. Returns a line on its content.

    If a verdict belongs to another protocol than the yaml's, the claim counts as not yet run.
    """
    claims, verdicts = budgets["quick"], verdicts_in(budgets, out)
    return write_text(path, page_of(claims, verdicts, equal_arms(claims, verdicts, out)), claims, verdicts)


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


def write_text(path: Path, text: str, claims: dict[str, Claim], verdicts: dict[str, dict]) -> str:
    """Write a page. Returns a line on its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    testable = sum(claim.evidence != "none" for claim in claims.values())
    return f"{path}: {len(verdicts)} verdicts of {testable} claims that can be tested"


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


PLACES = {"training": "at this scale", "initialization": "at initialization"}


def _surprising(verdict: dict[str, Any]) -> bool:
    if verdict["evidence"] == "law":
        return False
    return verdict["verdict"] not in ("supported", verdict.get("expected"))


def table(claims: dict[str, Claim], verdicts: dict[str, dict], letter: str) -> str:
    """The claims whose id starts with `letter`, one row each, in Markdown."""
    rows = [
        "| id | sentence | verdict | effect [interval] | asked | seeds | tier, cost | command |",
        "|---|---|---|---|---|--:|---|---|",
    ]
    for claim in claims.values():
        if not claim.id.startswith(letter):
            continue
        verdict = verdicts.get(claim.id)
        whose = f", {claim.kind}" if claim.kind else ""
        sentence = f"{cell(claim.sentence)} *{cell(claim.source)}{whose}*" + (
            f" {cell(claim.note)}" if claim.note else ""
        )
        if verdict is None:
            command = "" if claim.evidence == "none" else f"`python scripts/verify.py claim={claim.id}`"
            rows.append(
                f"| {claim.id} | {sentence} | {status(claim, None)} | {cell(claim.reason)} | | | | {command} |"
            )
            continue
        question = cell(verdict.get("asked") or describe_question(verdict["comparison"]))
        cost = f"{verdict['budget']}, {duration(seconds_of(verdict))}"
        word, seeds = f"**{cell(with_scope(verdict))}**", verdict["n_seeds"]
        word += f" (untuned: {verdict['untuned_word']})" if verdict["untuned_word"] else ""
        rows.append(
            f"| {claim.id} | {sentence} | {word} | {effect_of(verdict)} | {question} | {seeds} | {cost} "
            f"| `{verdict['command']}` |"
        )
    return "\n".join(rows)


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
