"""The sections of `docs/verdicts.md` on all its words together: counts by kind; p, q and Holm over all empirical
verdicts, and how many words are expected to be false."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from normexp.claims.judge.estimate import ALPHA, holm
from normexp.claims.pages import markdown_table
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_checks import KINDS

EMPIRICAL = ("training", "initialization")
UNDECIDED = ("inconclusive", "no counterexample", "cannot be tested")
KINDLESS = "not said"
WORDS = (
    "supported", "refuted", "varies", "depends", "no counterexample", "inconclusive", "not yet run", "cannot be tested",
)  # fmt: skip
HEADINGS = {"varies": "varies across settings", "depends": "depends on X"}


@dataclass(frozen=True)
class PageRow:
    """One empirical verdict of a page.

    Attributes:
        p: the smallest alpha at which its word holds; for an inconclusive verdict, at which any word would hold. It is
            adjusted as if all of the 5% were spent at once, since looks and amendments leave less.
        q: Benjamini and Hochberg's q. Of the verdicts with this q or less, this share is expected to be false.
        holm: whether the word stays if, with 95%, no word of the page may be false.
    """

    id: str
    word: str
    decided: bool
    p: float
    q: float
    holm: bool


def page_rows(verdicts: Iterable[dict[str, Any]]) -> list[PageRow]:
    """Every verdict from runs or initial networks that has a p. Counterexamples have no p, because other verdicts do
    not weaken them. Laws have none, because they are no samples."""
    kept = [v for v in verdicts if v["evidence"] in EMPIRICAL and p_of(v) is not None]
    if not kept:
        return []
    p = np.array([p_of(verdict) for verdict in kept])
    q = false_discovery_rates(p)
    stays = holm(p) <= ALPHA
    return [
        PageRow(v["id"], v["verdict"], own, float(pi), float(qi), bool(own and hi))
        for v, pi, qi, hi in zip(kept, p, q, stays, strict=True)
        for own in [v["verdict"] not in UNDECIDED]
    ]


def false_discovery_rates(p: np.ndarray) -> np.ndarray:
    """Benjamini and Hochberg's q of each p (n,): the least p_j n / rank_j over all p_j that are as large or larger."""
    order = np.argsort(p)[::-1]
    rising = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    return np.minimum(rising, 1.0)[np.argsort(order)]


def p_of(verdict: dict[str, Any]) -> float | None:
    """p, adjusted for the claim's comparisons, and for the part of the 5% that its looks and amendments left."""
    if verdict.get("p_adjusted") is None:
        return None
    return min(1.0, float(verdict["p_adjusted"]) * ALPHA / (1 - float(verdict["level"])))


def expected_false(rows: list[PageRow]) -> float:
    """Most decided words that are expected to be false: their number times the largest q among them."""
    decided = [row.q for row in rows if row.decided]
    return len(decided) * max(decided, default=0.0)


def counts_by_kind(kinds: dict[str, str], words: dict[str, str]) -> dict[str, dict[str, int]]:
    """kind -> word -> number of claims. `kinds` and `words` are by id. "depends on the data" counts as `depends`."""
    found: dict[str, dict[str, int]] = {}
    for name, kind in kinds.items():
        row = found.setdefault(kind or KINDLESS, {})
        word = short(words[name])
        row[word] = row.get(word, 0) + 1
    return found


def short(word: str) -> str:
    """The first part of a word: "depends on the data" is a `depends`, "varies across settings" a `varies`."""
    first = word.split()[0]
    return first if first in ("depends", "varies") else word


def words_table(rows: dict[str, dict[str, int]]) -> str:
    """One row per name, with the number of times that it has each word."""
    table = [(name, *(own.get(word, 0) for word in WORDS)) for name, own in rows.items()]
    columns = ("", *(HEADINGS.get(word, word) for word in WORDS))
    return markdown_table(columns, table, numbers=range(1, len(columns)))


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
    table = [
        (
            row.id,
            row.word,
            f"{row.p:.2g}",
            f"{row.q:.2g}",
            ("yes" if row.holm else "no") if row.decided else "",
        )
        for row in sorted(rows, key=lambda row: row.p)
    ]
    columns = ("id", "word", "p", "q", "stays under Holm")
    return "\n\n".join(
        ["## How many words would be false", text, markdown_table(columns, table, numbers=(2, 3))]
    )
