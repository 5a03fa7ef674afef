"""How many words of a page are expected to be false: p, q and Holm over all empirical verdicts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from normexp.claims.judge.decide import ALPHA
from normexp.claims.judge.holm import holm

EMPIRICAL = ("training", "initialization")
UNDECIDED = ("inconclusive", "no counterexample", "cannot be tested")
KINDLESS = "not said"


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
    # Takes a second to import, and only a page needs it.
    from statsmodels.stats.multitest import multipletests

    p = np.array([p_of(verdict) for verdict in kept])
    q = multipletests(p, method="fdr_bh")[1]
    stays = holm(p) <= ALPHA
    return [
        PageRow(v["id"], v["verdict"], own, float(pi), float(qi), bool(own and hi))
        for v, pi, qi, hi in zip(kept, p, q, stays, strict=True)
        for own in [v["verdict"] not in UNDECIDED]
    ]


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
