"""`docs/verdicts.md`: every claim with its verdict, from `verdict.json` files and the yaml alone."""

import json
from pathlib import Path
from typing import Any

from normexp.claims import calibration
from normexp.claims.claim import Claim
from normexp.claims.plan import duration
from normexp.claims.verdict import VERDICT, describe_question

HEAD = """# Verdicts

<!-- Written by `python scripts/verify.py page=docs/verdicts.md`; changes by hand are lost. -->

A claim is one file in `configs/claim/`; its verdict is one command, `python scripts/verify.py claim=<id>`.
Supported: the whole interval lies beyond the smallest effect that matters, which was fixed beforehand. Refuted: it lies
on the other side, or within that margin where a difference was claimed; one counterexample refutes a universal
sentence. Inconclusive: neither, with the number of seeds that would likely decide. `docs/claims.md` has the rules.
Intervals hold at 95%, at more where a claim may be judged again with more seeds; of a universal sentence the range of
all values stands in their place.
"""


def write_page(path: Path, budgets: dict[str, dict[str, Claim]], out: Path) -> str:
    """Write the page from the verdicts found in `out` and the claims of every budget; returns what it holds.

    A verdict of another protocol than the yaml's has to be found again, so the claim counts as not yet run.
    """
    claims = budgets["quick"]
    verdicts = {}
    for claim in claims:
        if (out / claim / VERDICT).exists():
            verdict = json.loads((out / claim / VERDICT).read_text())
            if verdict["protocol"] == budgets[verdict["budget"]][claim].protocol:
                verdicts[claim] = verdict
    parts = [HEAD, counts(claims, verdicts), surprises(verdicts)]
    parts.append("## Sentences of the source documents\n\n" + table(claims, verdicts, "S"))
    parts.append("## Claims of papers\n\n" + table(claims, verdicts, "P"))
    parts.append("## Others\n\n" + table(claims, verdicts, "X"))
    parts.append(error_rates())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return f"{path}: {len(verdicts)} verdicts of {len(claims)} claims"


def counts(claims: dict[str, Claim], verdicts: dict[str, dict]) -> str:
    rows = [
        "| | supported | refuted | inconclusive | not yet run | cannot be tested |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for letter, name in (("S", "source documents"), ("P", "papers"), ("X", "others")):
        own = [claim for claim in claims.values() if claim.id.startswith(letter)]
        words = [status(claim, verdicts.get(claim.id)) for claim in own]
        columns = ("supported", "refuted", "inconclusive", "not yet run", "cannot be tested")
        rows.append(f"| {name} | " + " | ".join(str(words.count(word)) for word in columns) + " |")
    exact = [verdict["seconds"] for verdict in verdicts.values() if verdict["evidence"] != "training"]
    trained = [
        verdict["runs"]["training_seconds"]
        for verdict in verdicts.values()
        if verdict["evidence"] == "training"
    ]
    return (
        "\n".join(rows)
        + f"\n\nWhat needs no training took {duration(sum(exact))}; the runs of training claims "
        + f"{duration(sum(trained))} of training, runs that claims share counted in each."
    )


def status(claim: Claim, verdict: dict[str, Any] | None) -> str:
    if claim.evidence == "none":
        return "cannot be tested"
    return verdict["verdict"] if verdict else "not yet run"


def surprises(verdicts: dict[str, dict]) -> str:
    """Verdicts against what mathematics says, and training claims that did not come out as their sentence says."""
    wrong = [v for v in verdicts.values() if v["as_expected"] is False]
    against = [v for v in verdicts.values() if v["evidence"] == "training" and v["verdict"] != "supported"]
    lines = ["## What surprised us", ""]
    lines += [f"- **{v['id']}** is {v['verdict']} where mathematics says {v['expected']}" for v in wrong]
    if not wrong:
        lines.append("- No verdict contradicts one that mathematics gives.")
    lines += [
        f"- **{v['id']}** {v['verdict']} at this scale: {v['sentence']} ({effect_of(v)})" for v in against
    ]
    return "\n".join(lines)


def table(claims: dict[str, Claim], verdicts: dict[str, dict], letter: str) -> str:
    rows = [
        "| id | sentence | verdict | effect [interval] | asked | seeds | tier, cost |",
        "|---|---|---|---|---|--:|---|",
    ]
    for claim in claims.values():
        if not claim.id.startswith(letter):
            continue
        verdict = verdicts.get(claim.id)
        sentence = f"{cell(claim.sentence)} *{cell(claim.source)}*" + (
            f" {cell(claim.note)}" if claim.note else ""
        )
        if verdict is None:
            why = (
                cell(claim.reason)
                if claim.evidence == "none"
                else f"`python scripts/verify.py claim={claim.id}`"
            )
            rows.append(f"| {claim.id} | {sentence} | {status(claim, None)} | {why} | | | |")
            continue
        question = cell(describe_question(verdict["comparison"]))
        cost = f"{verdict['budget']}, {duration(verdict['seconds'])}"
        word, seeds = f"**{verdict['verdict']}**", verdict["n_seeds"]
        rows.append(
            f"| {claim.id} | {sentence} | {word} | {effect_of(verdict)} | {question} | {seeds} | {cost} |"
        )
    return "\n".join(rows)


def effect_of(verdict: dict[str, Any]) -> str:
    low, high = (f"{float(end):.3g}" for end in verdict["interval"])
    more = f"; {verdict['more_seeds']} more seeds would likely decide" if verdict["more_seeds"] else ""
    edge = verdict.get("learning_rates_at_edge")
    narrow = f"; learning rate at the edge of the grid: {', '.join(edge)}" if edge else ""
    return f"{float(verdict['effect']):.3g} [{low}, {high}]{more}{narrow}"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def error_rates() -> str:
    """A/A comparisons, coverage and power, simulated when the page is written."""
    rows = [
        "## How often the judge errs",
        "",
        "2,000 simulated comparisons each; paired effects with mean 0.",
        "",
    ]
    rows += [
        "| values | seeds | t interval covers (95%) | percentile bootstrap covers | A/A called different |"
    ]
    rows += ["|---|--:|--:|--:|--:|"]
    for shape, name in (
        ("normal", "normal"),
        ("t3", "heavy-tailed"),
        ("accuracy", "accuracies on 360 images"),
    ):
        for seeds in (5, 8, 20):
            t, boot = (
                calibration.coverage(shape, seeds, "t"),
                calibration.coverage(shape, seeds, "percentile", 500),
            )
            error = calibration.claimed(shape, seeds, margin=0.0)
            rows.append(f"| {name} | {seeds} | {t:.1%} | {boot:.1%} | {error:.1%} |")
    looks = calibration.claimed_with_looks([5, 10, 20])
    rows += [
        "",
        f"Judged after 5, 10 and 20 seeds until it decides, an A/A comparison errs in {looks:.1%}.",
        "",
    ]
    rows += ["| planted effect (deviations) | power at 5 seeds | at 8 | at 20 |", "|--:|--:|--:|--:|"]
    for shift in (0.5, 1.0, 2.0):
        powers = [calibration.claimed("normal", seeds, margin=0.0, shift=shift) for seeds in (5, 8, 20)]
        rows.append(f"| {shift:g} | " + " | ".join(f"{power:.0%}" for power in powers) + " |")
    rows += ["", "Hence the t interval: a bootstrap of few seeds promises 95% and covers less."]
    return "\n".join(rows)
