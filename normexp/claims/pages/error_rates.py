"""How often words are false: how many of a page are expected to be (p, q and Holm over all empirical verdicts), and
the bounds on what `scripts/calibrate.py` counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from normexp.claims.judge.estimate import ALPHA, holm

EMPIRICAL = ("training", "initialization")
UNDECIDED = ("inconclusive", "no counterexample", "cannot be tested")


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


def most_errors(trials: int, level: float = 0.05) -> int:
    """The most errors that a one-sided binomial test allows at a true rate of 5%: 4 of 40."""
    return int(stats.binom.isf(level, trials, 0.05))


def qualifies(share: float, trials: int) -> bool:
    """Whether this share of false words is consistent with at most 5%, by a test at 1%, as many shares are tested."""
    return round(share * trials) <= most_errors(trials, 0.01)


def chance(errors: int, trials: int) -> float:
    """Probability of at least so many errors at a true rate of 5%."""
    return float(stats.binom.sf(errors - 1, trials, 0.05))
