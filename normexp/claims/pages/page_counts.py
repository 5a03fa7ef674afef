"""Tables of `docs/verdicts.md`: how many claims have each word, and each scope."""

from typing import Any

from normexp.claims.judge.multiplicity import counts_by_kind
from normexp.claims.pages.how_many_false import words_table
from normexp.claims.spec.claim import Claim
from normexp.duration import duration

SCOPES = (
    "a law",
    "in cases",
    "over settings, registered",
    "over settings, unregistered",
    "one setting, unregistered",
)


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
    lines = [f"| evidence | {' | '.join(SCOPES)} |", f"|---|{'--:|' * len(SCOPES)}"]
    lines += [f"| {name} | {' | '.join(map(str, row.values()))} |" for name, row in sorted(rows.items())]
    return "## Where words hold\n\n" + "\n".join(lines)


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
