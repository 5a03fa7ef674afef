"""The front page: what is judged stands there in plain words with a figure, and README.md waits for drawn settings."""

import pytest
from committed import CLAIMS, ROOT, altered, judged
from made_settings import made
from matplotlib.image import imread

from normexp.claims.judge.over_settings import judge_settings
from normexp.claims.judge.verdict import Verdict
from normexp.claims.pages import findings
from normexp.claims.pages.findings import MOST_FINDINGS, QUESTIONS, answer, beside, counts, write_findings


def drawn_verdict(name: str, n: int = 24, drawn: bool = True) -> Verdict:
    """P01's sentence over made settings: BatchNorm errs a fifth less in three of four."""
    rule = lambda norm, labels, at: 0.2 * (1 if norm == "none" or int(labels["depth"]) > 6 else 0.8)  # noqa: E731
    settings = [own.setting for own in made(rule, n=n)]
    claim = altered(CLAIMS["P01"], id=name, first=24 if drawn else 0)
    return judge_settings(claim, settings)


def test_every_question_is_a_claim_and_the_first_ones_are_about_drawn_settings():
    assert set(QUESTIONS) <= CLAIMS.keys()
    assert len(QUESTIONS) == len(set(QUESTIONS))
    kinds = [CLAIMS[name].drawn for name in QUESTIONS]
    assert kinds == sorted(kinds, reverse=True)
    assert sum(kinds) >= MOST_FINDINGS  # once all are judged, the page rests on drawn settings alone


def test_chosen_settings_and_laws_promise_no_more_than_they_have():
    chosen = drawn_verdict("P01", drawn=False)
    assert answer(chosen) == f"Holds in {chosen.counts[0].holds} of 24 hand-picked settings"
    assert "this says nothing about others" in beside(chosen)[-1]
    law = judged("P17b")
    assert (answer(law), beside(law)[0]) == ("Refuted", "By a counterexample, after a search of 400 cases.")
    assert counts(law) == ""


def test_the_page_takes_the_first_ten_in_their_order(tmp_path):
    page = tmp_path / "docs" / "findings.md"
    names = ["P10a", "X09", "P06b"]
    verdicts = {name: judged(name) for name in names} | {"P01": drawn_verdict("P01")}
    line = write_findings(page, CLAIMS, verdicts)
    assert line.endswith(f"4 findings, 1 over drawn settings; {len(QUESTIONS) - 5} questions not judged yet")
    assert page.read_text().endswith("Withdrawn as worded: P07c.\n")
    text = page.read_text()
    order = [text.index(f"images/finding_{name}.png") for name in ("P01", "X09", "P10a", "P06b")]
    assert order == sorted(order)
    image = imread(page.parent / "images" / "finding_P01.png")
    assert image.shape[1] > 800
    assert image[..., :3].std() > 0.05


def test_a_question_with_fewer_settings_than_it_asks_for_waits(tmp_path):
    begun = drawn_verdict("P01", n=5)
    line = write_findings(tmp_path / "findings.md", CLAIMS, {"P01": begun, "X09": judged("X09")})
    assert ": 1 findings, 0 over drawn settings" in line
    assert CLAIMS["P01"].sentence not in (tmp_path / "findings.md").read_text()


@pytest.mark.integration
def test_the_committed_page_is_what_the_evidence_gives_today(tmp_path, monkeypatch):
    """Its figures are compared by tests/test_committed_images.py."""
    figures = []
    monkeypatch.setattr(findings, "draw", lambda table, verdict, path, factor: figures.append(path.name))
    verdicts = {name: verdict for name in CLAIMS if (verdict := judged(name))}
    write_findings(tmp_path / "findings.md", CLAIMS, verdicts)
    assert (tmp_path / "findings.md").read_text() == (ROOT / "docs" / "findings.md").read_text()
    assert all((ROOT / "docs" / "images" / name).exists() for name in figures)
