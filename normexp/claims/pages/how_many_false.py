"""The section of `docs/verdicts.md` on all its words together: counts by kind, p, q and Holm."""

from typing import Any

from normexp.claims.judge.multiplicity import KINDLESS, counts_by_kind, expected_false, page_rows
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_checks import KINDS

WORDS = (
    "supported", "refuted", "varies", "depends", "no counterexample", "inconclusive", "not yet run", "cannot be tested",
)  # fmt: skip
HEADINGS = {"varies": "varies across settings", "depends": "depends on X"}


def words_table(rows: dict[str, dict[str, int]]) -> str:
    """One row per name, with the number of times that it has each word."""
    head = [f"| | {' | '.join(HEADINGS.get(word, word) for word in WORDS)} |", f"|---|{'--:|' * len(WORDS)}"]
    return "\n".join(
        head
        + [
            f"| {name} | {' | '.join(str(own.get(word, 0)) for word in WORDS)} |"
            for name, own in rows.items()
        ]
    )


def by_kind(claims: dict[str, Claim], words: dict[str, str]) -> str:
    """Counts by kind of sentence: quoted sentences apart from our readings of them."""
    found = counts_by_kind({name: claim.kind for name, claim in claims.items()}, words)
    order = [kind for kind in (*KINDS, KINDLESS) if kind in found]
    return "## Whose sentences\n\n" + words_table({kind: found[kind] for kind in order})


def how_many_false(verdicts: dict[str, dict[str, Any]]) -> str:
    """p, q and Holm's words over all empirical verdicts, as tables in Markdown."""
    rows = page_rows(verdicts.values())
    if not rows:
        return "## How many words would be false\n\nNo verdict from runs or initial networks has a p yet."
    decided = [row for row in rows if row.decided]
    largest = max((row.q for row in decided), default=0.0)
    stay = sum(row.holm for row in decided)
    text = (
        f"{len(rows)} verdicts come from runs or initial networks and have a p; {len(decided)} of them are decided. "
        "p is the smallest alpha at which the word holds, refuted and equivalent included, adjusted within the claim "
        "and for its looks and amendments. q is Benjamini and Hochberg's over all of them: of the decided words, whose "
        f"largest q is {largest:.2g}, at most {expected_false(rows):.1f} are expected to be false. {stay} would stay "
        "if no word of the page might be false with 95% (Holm over the page). Counterexamples and laws have no p."
    )
    if old := sum(v["evidence"] == "training" and v["p_adjusted"] is None for v in verdicts.values()):
        text += f" {old} older verdicts of one setting each kept their word and interval, and no p."
    table = ["| id | word | p | q | stays under Holm |", "|---|---|--:|--:|---|"]
    for row in sorted(rows, key=lambda row: row.p):
        stays = ("yes" if row.holm else "no") if row.decided else ""
        table.append(f"| {row.id} | {row.word} | {row.p:.2g} | {row.q:.2g} | {stays} |")
    return "\n".join(["## How many words would be false", "", text, "", *table])
