"""p, q and Holm over a page, against slow loops; counts by kind."""

import numpy as np
import pytest
from scipy import stats

from normexp.claims.pages.error_rates import expected_false, p_of, page_rows
from normexp.claims.pages.verdicts_page import page_of
from normexp.claims.spec.claim import Claim


def verdict(
    name: str, p: float | None, word: str = "supported", evidence: str = "training", level: float = 0.95
):
    return {"id": name, "verdict": word, "evidence": evidence, "p_adjusted": p, "level": level}


def test_q_is_benjamini_and_hochbergs_and_holm_goes_over_the_page():
    p = np.array([0.001, 0.04, 0.03, 0.011, 0.6])
    rows = page_rows(
        verdict(f"P{i}", value, "inconclusive" if value > 0.05 else "refuted") for i, value in enumerate(p)
    )
    order, m = np.argsort(p), len(p)
    slow = {int(i): min(p[j] * m / (1 + list(order).index(j)) for j in order if p[j] >= p[i]) for i in order}
    assert [row.q for row in rows] == pytest.approx([slow[i] for i in range(m)])
    assert [row.q for row in rows] == pytest.approx(stats.false_discovery_control(p))
    assert [row.holm for row in rows] == [True, False, False, True, False]
    assert [row.decided for row in rows] == [True, True, True, True, False]
    assert expected_false(rows) == pytest.approx(4 * 0.05)


def test_laws_cases_and_what_cannot_be_tested_have_no_p():
    found = page_rows(
        [
            verdict("S01", 0.0, evidence="law"),
            verdict("S47", None, "refuted"),
            verdict("P17b", None, "no counterexample"),
            {"id": "S26", "verdict": "cannot be tested", "evidence": "none"},
            verdict("P05a", 0.2, "inconclusive"),
        ]
    )
    assert [row.id for row in found] == ["P05a"]
    assert page_rows([]) == []


def test_looks_and_amendments_count_as_if_all_were_spent_at_once():
    assert p_of(verdict("a", 0.01, level=0.975)) == pytest.approx(0.02)
    assert p_of(verdict("a", 0.0125, level=1 - 0.05 / 4)) == pytest.approx(0.05)
    assert p_of(verdict("a", 0.9, level=0.975)) == 1.0


def test_a_page_of_true_nulls_calls_few_words_false():
    """Benjamini and Hochberg: words with a q of 5% at most are false in 5% at most, on average over pages."""
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        p = np.concatenate([generator.random(40), generator.beta(0.05, 10, size=20)])
        rows = page_rows(verdict(str(i), value) for i, value in enumerate(p))
        kept = [int(row.id) for row in rows if row.q <= 0.05]
        shares.append(np.mean([name < 40 for name in kept]) if kept else 0.0)
    assert np.mean(shares) < 0.05


def claim(kind: str) -> Claim:
    return Claim(id="x", name="n", sentence="s", source="s", covers=(), evidence="training", kind=kind)


def test_counts_keep_kinds_apart(tmp_path):
    claims = {"a": claim("verbatim"), "b": claim("verbatim"), "c": claim("ours"), "d": claim("")}
    words = {"a": "supported", "b": "depends on the data", "c": "varies across settings"}
    text = page_of(claims, {name: shown(name, 0.5, word) for name, word in words.items()}, tmp_path)
    assert "| verbatim | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 0 |" in text
    assert text.index("| verbatim") < text.index("| ours") < text.index("| not said")


def shown(name: str, p: float, word: str = "supported"):
    """A verdict with all that the page shows."""
    more = {"as_expected": None, "settings": [], "scope": "", "runs": {"training_seconds": 1}}
    return (
        verdict(name, p, word) | more | {"sentence": "s", "effect": 1.0, "interval": (0.0, 2.0), "note": ""}
    )


def test_the_page_says_how_many_words_would_be_false(tmp_path):
    verdicts = {str(i): shown(str(i), p) for i, p in enumerate([0.001, 0.04])}
    verdicts["2"] = shown("2", 0.5, "inconclusive")
    text = page_of({name: claim("ours") for name in verdicts}, verdicts, tmp_path)
    assert "3 verdicts come from runs or initial networks and have a p; 2 of them are decided." in text
    assert "at most 0.1 are expected to be false" in text
    assert "1 would stay" in text
    assert "| 0 | supported | 0.001 | 0.003 | yes |" in text
    assert "| 2 | inconclusive | 0.5 | 0.5 |  |" in text
    assert "has a p yet" in page_of({}, {}, tmp_path)
